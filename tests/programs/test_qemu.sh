#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# QEMU with its guest's memory in a file of the mount, all of it touched beforehand: on hugetlb by
# the library, on thp without it. The guest, Debian's kernel, fills most of its memory and reads it
# again. With a page too few QEMU says so itself and does not start.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
source "$(dirname "$0")/lib.sh"

memory_mb=256
pattern_mb=128
nr_pages=$((memory_mb / 2))

make_init()
{
	local sum

	sum=$(pattern | md5sum)
	cat >"$dir/init" <<-END
		#!/bin/busybox sh
		exec </dev/ttyS0 >/dev/ttyS0 2>&1
		/bin/busybox mount -t tmpfs -o size=200M tmpfs /tmp
		/bin/busybox yes hugefuse | /bin/busybox head -c $((pattern_mb << 20)) >/tmp/pattern
		echo GUEST filled
		read line
		sum=\$(/bin/busybox md5sum </tmp/pattern)
		[ "\$sum" = "$sum" ] && echo GUEST right || echo GUEST wrong
		/bin/busybox poweroff -f
	END
	chmod +x "$dir/init"
}

pattern()
{
	yes hugefuse | head -c $((pattern_mb << 20)) || true # head leaves before yes
}

# The kernel that Debian's metapackage stands for, not installed; and an initramfs.
make_guest()
{
	local package root=$dir/root

	package=$(dependency_of linux-image-cloud-amd64 'linux-image-[0-9].*')
	[[ -n $package ]] || skip "no package linux-image-cloud-amd64"
	mkdir "$dir/package"
	(cd "$dir/package" && apt-get -q -o APT::Sandbox::User=root download "$package" \
		>/dev/null) || skip "cannot download $package"
	dpkg -x "$dir"/package/*.deb "$dir/package"
	mv "$dir"/package/boot/vmlinuz-* "$dir/kernel"
	rm -r "$dir/package"
	make_init
	mkdir -p "$root"/{bin,dev,tmp}
	mknod "$root/dev/console" c 5 1
	mknod "$root/dev/ttyS0" c 4 64
	cp /bin/busybox "$root/bin"
	mv "$dir/init" "$root"
	(cd "$root" && find . | cpio --quiet -o -H newc) >"$dir/initramfs"
}

# QEMU with its memory on the mount; what comes first is what runs it. align: for files that are
# not of hugetlbfs it takes any address that is a multiple of 4 kB, whatever they are made of.
run_qemu()
{
	local options=align=2M,share=on,prealloc=on

	"$@" qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
		-machine "pc,accel=$accel,memory-backend=memory" -m "$memory_mb" -serial stdio \
		-object "memory-backend-file,id=memory,size=${memory_mb}M,mem-path=$dir/mnt,$options" \
		-kernel "$dir/kernel" -initrd "$dir/initramfs" \
		-append "console=ttyS0 quiet panic=-1"
}

# Start it in the background until the guest has filled its memory.
start_guest()
{
	rm -f "$dir/go"
	mkfifo "$dir/go"
	run_qemu exec "$@" <"$dir/go" >"$dir/out" 2>&1 &
	qemu=$!
	exec 9>"$dir/go"
	wait_for 120 is_filled_or_gone
	has_said filled || fail "the guest did not start: $(cat "$dir/out")"
}

is_filled_or_gone()
{
	has_said filled || ! kill -0 "$qemu"
}

has_said()
{
	grep -q "^GUEST $1" "$dir/out"
}

end_guest()
{
	echo >&9
	exec 9>&-
	wait "$qemu" || fail "qemu ended with $?: $(cat "$dir/out")"
	qemu=
	has_said right || fail "the guest's memory: $(cat "$dir/out")"
}

# $1 pages of the mount are in use, by one file without a name.
expect_used()
{
	(($(counter free_hugepages) == $(counter nr_hugepages) - $1)) ||
		fail "$(counter free_hugepages) of $(counter nr_hugepages) pages are free"
	"$HUGEFUSE" ls --json "$dir/mnt" | python3 -c '
import json, sys
(file,) = json.load(sys.stdin)["files"]
assert file["instantiated_pages"] == int(sys.argv[1]), file
assert file["links"] == 0, file
assert file["way"] == sys.argv[2], file' "$1" "$2" || fail "hugefuse ls"
}

all_free()
{
	(($(counter free_hugepages) == $(counter nr_hugepages)))
}

expect_all_free()
{
	wait_for 5 all_free || fail "$(counter free_hugepages) pages are free"
	(($(tail -n +2 "$dir/mnt/.hugefuse/files" | wc -l) == 0)) ||
		fail "left behind: $(cat "$dir/mnt/.hugefuse/files")"
	(($(tail -n +2 "$dir/mnt/.hugefuse/maps" | wc -l) == 0)) ||
		fail "left behind: $(cat "$dir/mnt/.hugefuse/maps")"
}

test_hugetlb()
{
	local mapped

	"$HUGEFUSE" mount -o "backing=hugetlb,size=${memory_mb}M" "$dir/mnt"
	start_guest "$HUGEFUSE" run -m "$dir/mnt" --
	expect_used "$nr_pages" direct
	(($(smaps_kb "$qemu" Shared_Hugetlb Private_Hugetlb) == memory_mb * 1024)) ||
		fail "$(smaps_kb "$qemu" Shared_Hugetlb Private_Hugetlb) kB of huge pages"
	mapped=$("$HUGEFUSE" maps --json "$dir/mnt" | python3 -c '
import json, sys
(mapping,) = json.load(sys.stdin)["mappings"]
print(mapping["pid"], mapping["end"] - mapping["start"], mapping["instantiated_bytes"])')
	[[ $mapped == "$qemu $((memory_mb << 20)) $((memory_mb << 20))" ]] ||
		fail "hugefuse maps: $mapped"
	end_guest
	expect_all_free
	"$HUGEFUSE" umount "$dir/mnt"
}

test_thp()
{
	"$HUGEFUSE" mount -o "backing=thp,size=${memory_mb}M" "$dir/mnt"
	start_guest
	expect_used "$nr_pages" passthrough
	expect_pmd_mapped "$qemu" $((memory_mb * 1024))
	expect_no_fallback
	end_guest
	expect_all_free
	"$HUGEFUSE" umount "$dir/mnt"
}

# A page too few: $1 is the backing, $2 what QEMU says, and what follows runs it.
expect_too_small()
{
	local backing=$1 message=$2 r=0

	shift 2
	"$HUGEFUSE" mount -o "backing=$backing,size=$((memory_mb - 2))M" "$dir/mnt"
	run_qemu timeout 60 "$@" </dev/null >"$dir/out" 2>&1 || r=$?
	((r == 1)) || fail "qemu ended with $r: $(cat "$dir/out")"
	grep -q "$message" "$dir/out" || fail "$(cat "$dir/out")"
	expect_all_free
	"$HUGEFUSE" umount "$dir/mnt"
}

test_too_small()
{
	expect_too_small hugetlb 'qemu-system-x86_64: unable to map backing store for guest RAM: Cannot allocate memory' \
		"$HUGEFUSE" run -m "$dir/mnt" --
}

test_too_small_thp()
{
	expect_too_small thp '^ftruncate: No space left on device' env
}

take_down_qemu()
{
	local exit_code=$?

	set +e
	[[ -z ${qemu-} ]] || kill -KILL "$qemu" 2>/dev/null
	(exit "$exit_code")
	take_down
}

require_root
[[ $(dpkg --print-architecture 2>/dev/null) == amd64 ]] || skip "its guest is for amd64"
need_packages qemu-system-x86 busybox-static cpio python3
accel=tcg
[[ ! -w /dev/kvm ]] || accel=kvm:tcg
make_dir
trap take_down_qemu EXIT
mkdir "$dir/mnt"
make_guest
before=$(machine_state)
for test in test_hugetlb test_thp test_too_small test_too_small_thp; do
	echo "$test"
	"$test"
done
expect_state "$before" "the end"
