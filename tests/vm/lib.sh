# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sourced by tests/vm/run: a kernel of Debian's that has several NUMA nodes in qemu, whatever machine
# and kernel this is, and an initramfs with programs of this build.

# shellcheck source=tests/programs/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../programs/lib.sh"

# The distribution whose kernel can do what is tested: that of Debian 12 itself cannot.
kernel_suite=bookworm-backports

# apt with nothing of the machine's but its keys: what it says of this suite is kept in $dir.
apt_of_suite()
{
	local command=$1

	shift
	"$command" -q -o Dir::Etc::SourceList="$dir/apt/sources.list" \
		-o Dir::Etc::SourceParts=/dev/null -o Dir::State="$dir/apt/state" \
		-o Dir::State::status="$dir/apt/status" -o Dir::Cache="$dir/apt/cache" \
		-o APT::Sandbox::User=root "$@" </dev/null
}

# Where the machine gets Debian from.
debian_mirrors()
{
	# shellcheck disable=SC2016 # for apt
	apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Component: main' |
		grep -v security | sort -u
}

download_kernel()
{
	local mirror package

	command -v apt-get >/dev/null || skip "no kernel for the guest: needs apt"
	mkdir -p "$dir"/apt/{state/lists/partial,cache/archives/partial}
	: >"$dir/apt/status"
	mirror=$(debian_mirrors | head -n 1)
	[[ -n $mirror ]] || skip "no kernel for the guest: apt has no source of Debian's"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
		"$mirror $kernel_suite main" >"$dir/apt/sources.list"
	apt_of_suite apt-get update >/dev/null 2>&1 || true
	package=$(apt_of_suite apt-cache depends linux-image-cloud-amd64 2>/dev/null |
		sed -nE 's/^ *Depends: (linux-image-[0-9].*)$/\1/p' | head -n 1)
	[[ -n $package ]] || skip "no kernel for the guest: $mirror has no $kernel_suite"
	(cd "$dir/apt" && apt_of_suite apt-get download "$package" >/dev/null 2>&1) ||
		skip "no kernel for the guest: cannot download $package"
	dpkg -x "$dir"/apt/*.deb "$dir/apt/package"
	mv "$dir"/apt/package/boot/vmlinuz-* "$dir/kernel"
	rm -r "$dir/apt"
}

# The guest's kernel, in $kernel: downloaded once for a build directory.
need_kernel()
{
	local cache=${VM_CACHE:-}

	kernel=$dir/kernel
	if [[ -n $cache && -s $cache/vmlinuz ]]; then
		kernel=$cache/vmlinuz
		return
	fi
	download_kernel
	[[ -n $cache ]] || return 0
	mkdir -p "$cache"
	cp "$dir/kernel" "$cache/vmlinuz.$$"
	mv "$cache/vmlinuz.$$" "$cache/vmlinuz"
}

# A program with the libraries that it wants, where it finds them.
add_program()
{
	local root=$1 program=$2 library

	cp -L --parents "$program" "$root"
	for library in $(ldd "$program" | grep -oE '/[^ ]+'); do
		[[ -e $root/$library ]] || cp -L --parents "$library" "$root"
	done
}

# The guest's first process: runs the cases, says of each how it ended, and turns it off.
write_init()
{
	local program

	cat <<-'END'
		#!/bin/busybox sh
		/bin/busybox --install -s /bin
		export PATH=/bin TMPDIR=/tmp TERM=dumb
		mount -t proc proc /proc
		mount -t sysfs sysfs /sys
		mount -t devtmpfs devtmpfs /dev
		mount -t tmpfs tmpfs /run
		mount -t cgroup2 cgroup2 /sys/fs/cgroup
		exec </dev/null >/dev/ttyS0 2>&1
	END
	printf 'export HUGEFUSE=%q\n' "$HUGEFUSE"
	for program; do
		# shellcheck disable=SC2016 # for the guest's shell
		printf '%q; r=$?; echo; echo "VM %s ended with $r"\n' "$program" "${program##*/}"
	done
	echo 'poweroff -f'
}

make_initramfs()
{
	local root=$dir/root program

	mkdir -p "$root"/{bin,dev,mnt,proc,sys,tmp,run}
	mknod "$root/dev/console" c 5 1
	cp /bin/busybox "$root/bin"
	for program in "$HUGEFUSE" "$@"; do
		add_program "$root" "$program"
	done
	# what pthread_cancel(3) loads
	add_program "$root" "$(ldconfig -p | awk '$1 == "libgcc_s.so.1" { print $NF; exit }')"
	write_init "$@" >"$root/init"
	chmod +x "$root/init"
	(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$dir/initramfs"
	rm -r "$root"
}

# A machine with a processor in each node and as much memory there as said: 512 512, or 512 0 512
# for one whose second node has none. Without KVM, erms and fsrm make copies of a huge page slow, and
# cx16 damages the flags (qemu 7.2). A clock that is found to be unstable has the kernel change its own
# code under the other processors, which qemu's do not always bear.
boot()
{
	local node=0 total=0 size
	local -a options=()

	for size; do
		if ((size)); then
			options+=(-object "memory-backend-ram,id=mem$node,size=${size}M"
				-numa "node,nodeid=$node,cpus=$node,memdev=mem$node")
		else
			options+=(-numa "node,nodeid=$node,cpus=$node")
		fi
		total=$((total + size)) node=$((node + 1))
	done
	timeout "${VM_TIMEOUT:-200}" qemu-system-x86_64 -accel tcg,thread=multi \
		-cpu max,-erms,-fsrm,-cx16,-la57 -machine q35 -smp "$node" -m "$total" "${options[@]}" \
		-kernel "$kernel" -initrd "$dir/initramfs" \
		-append "console=ttyS0 panic=-1 quiet numa_balancing=disable tsc=reliable" \
		-display none -no-user-config -nodefaults -no-reboot -serial stdio </dev/null
}
