# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sourced by tests/run: runs suites in a chroot with another Debian release, for the libfuse and
# the compiler that it has. The kernel is this one's.
#
# The chroot is made once, in a build directory, and used again; the suites are built in /build
# there. What is bound into it is so in a mount namespace of that run's own, and gone with its last
# process.

# shellcheck disable=SC2154 # work_dir is of tools/setup.sh

# Where apt gets a release of Debian's from: the first of its sources that has it.
find_mirror()
{
	local release=$1 mirror

	# shellcheck disable=SC2016 # for apt
	for mirror in $(apt-get indextargets --format '$(REPO_URI)' 'Component: main' | sort -u); do
		/usr/lib/apt/apt-helper download-file "${mirror%/}/dists/$release/InRelease" \
			"$work_dir/InRelease" &>>"$work_dir/chroot.log" || continue
		! grep -qx 'Origin: Debian' "$work_dir/InRelease" || {
			printf '%s\n' "$mirror"
			return
		}
	done
	return 1
}

# debootstrap in a directory beside, so that $1 is either whole or not there.
make_chroot()
{
	local root=$1 release=$2 mirror=$3

	say "making a chroot with Debian's $release (a minute) ..."
	rm -rf --one-file-system "$root.new"
	mkdir -p "$root.new"
	in_background unshare --mount \
		debootstrap --variant=minbase "$release" "$root.new" "$mirror" &&
		mv "$root.new" "$root"
}

# One line with the reason and 77 where there is no chroot to be had; the end of the log and 1
# where one should have been.
prepare_chroot()
{
	local root=$1 release=$2 mirror

	[[ ! -d $root ]] || return 0
	if ! type apt-get debootstrap &>/dev/null; then
		echo "skipped: needs apt and debootstrap"
		return 77
	fi
	mirror=$(find_mirror "$release") || {
		echo "skipped: no source of apt's has Debian's $release, or there is no network"
		return 77
	}
	make_chroot "$root" "$release" "$mirror" >>"$work_dir/chroot.log" || {
		tail -n 20 "$work_dir/chroot.log"
		return 1
	}
}

# In a session of its own, which a signal to this script ends: it finds the script waiting.
in_background()
{
	undo end_background
	setsid "$@" </dev/null &
	background_pid=$!
	wait "$background_pid"
}

# What runs there may have something to undo before it ends.
end_background()
{
	[[ -n ${background_pid-} ]] || return 0
	kill -TERM -- "-$background_pid" 2>/dev/null || kill -TERM "$background_pid" 2>/dev/null || true
	wait "$background_pid" || true
	background_pid=
}

# Run tests/run in the chroot $1 with the arguments that follow; the source is in
# /hugefuse there, and cannot be changed.
run_in_chroot()
{
	# shellcheck disable=SC2016 # for the shell in the namespace
	in_background unshare --mount --propagation private bash -euc '
		root=$1
		shift
		# a mount point, as what unshares in there expects / to be
		mount --bind "$root" "$root"
		mkdir -p "$root/hugefuse"
		mount --bind . "$root/hugefuse"
		mount -o remount,bind,ro "$root/hugefuse"
		for dir in dev proc sys; do
			mount --rbind "/$dir" "$root/$dir"
		done
		for dir in run tmp; do
			mount -t tmpfs -o mode=1777 tmpfs "$root/$dir"
		done
		cp -L /etc/resolv.conf "$root/etc/"
		# fusermount3 looks there
		ln -sfn /proc/self/mounts "$root/etc/mtab"
		exec chroot "$root" /usr/bin/env -i ${CI+"CI=$CI"} HOME=/root LANG=C.UTF-8 \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			bash -c "cd /hugefuse && dpkg --configure -a >&2 && exec tests/run \"\$@\"" \
			run "$@"
	' enter "$@"
}
