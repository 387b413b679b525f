#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# mount -t hugefuse and umount, by mount(8) and an fstab: in a mount namespace of its own, whose
# /sbin has a mount.hugefuse, if there is none, that nobody else sees.
set -euo pipefail
# shellcheck source=tests/mount/lib.sh
source "$(dirname "$0")/lib.sh"

# Put the program where mount(8) looks, in a copy of /sbin on top of the real one.
install_helper()
{
	local sbin

	sbin=$(readlink -f /sbin)
	mkdir "$dir/sbin"
	cp -a "$sbin/." "$dir/sbin"
	ln -sf "$HUGEFUSE" "$dir/sbin/mount.hugefuse"
	mount --bind "$dir/sbin" "$sbin"
}

in_namespace()
{
	mount -t tmpfs tmpfs "$dir"
	mkdir "$dir/mnt"
	install_helper
	echo mount
	mount -t hugefuse -o backing=hugetlb,size=8M,mode=1770,gid=123 pages "$dir/mnt"
	grep -q "^pages $dir/mnt fuse.hugefuse " /proc/self/mounts || fail "$(grep "$dir" /proc/self/mounts)"
	[[ $(stat -c '%a %g' "$dir/mnt") == "1770 123" ]] || fail "$(stat "$dir/mnt")"
	[[ $(counter nr_hugepages) == 4 ]] || fail "nr_hugepages"
	"$HUGEFUSE" umount "$dir/mnt"
	echo fstab
	echo "pool $dir/mnt hugefuse backing=hugetlb,size=4M,noauto,x-systemd.automount,nofail 0 0" >"$dir/fstab"
	mount -T "$dir/fstab" "$dir/mnt"
	[[ $(counter nr_hugepages) == 2 ]] || fail "nr_hugepages"
	umount "$dir/mnt"
	echo refused
	if mount -t hugefuse -o backing=hugetlb,size=8M,nonsense=1 pages "$dir/mnt" 2>"$dir/err"; then
		fail "a bad option was accepted"
	fi
	grep -q nonsense "$dir/err" || fail "$(cat "$dir/err")"
	echo fake
	mount -f -t hugefuse -o backing=hugetlb,size=8M pages "$dir/mnt"
	! grep -q " $dir/mnt " /proc/self/mounts || fail "mount -f has mounted"
	umount "$(readlink -f /sbin)"
	umount "$dir"
}

require_root
if [[ ${1-} == --in-namespace ]]; then
	dir=$2
	in_namespace
	exit
fi
make_dir
before=$(machine_state)
unshare -m --propagation private "$0" --in-namespace "$dir"
expect_state "$before" "mount -t hugefuse"
