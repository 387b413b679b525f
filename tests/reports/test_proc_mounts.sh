#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# /proc/mounts: lines of 100 KB in it are no obstacle; the mount's own line, read back and used as
# options, mounts the same again; and df, du and stat -f say what the pool says.
set -euo pipefail
# shellcheck source=tests/mount/lib.sh
source "$(dirname "$0")/../mount/lib.sh"

require_root
command -v unshare >/dev/null || skip "needs unshare(1)"

if [[ ${1-} == inside ]]; then
	dir=$2
	# paths of 250 bytes
	printf -v name '%*s' $((250 - ${#dir} - 12)) ''
	for ((i = 100; i < 550; i++)); do
		mkdir -p "$dir/layers/$i/${name// /x}"
	done
	mkdir -p "$dir/merged"
	"$(dirname "$0")/mount_overlay" "$dir/merged" "$dir"/layers/*/* || skip "no overlay of 450 layers"
	longest=$(awk '{ if (length > n) n = length } END { print n }' /proc/mounts)
	((longest > 100000)) || fail "the longest line of /proc/mounts has $longest bytes"
	"$HUGEFUSE" mount -o size=16M,backing=hugetlb "$dir/mnt" >/dev/null
	# it says so where a mount of somebody else's is dead
	"$HUGEFUSE" stat >"$dir/out" 2>/dev/null || true
	grep -qF "$dir/mnt" "$dir/out" || fail "hugefuse stat does not find the mount"
	"$HUGEFUSE" stat "$dir/mnt" >/dev/null
	"$HUGEFUSE" run -m "$dir/mnt" -- true
	"$HUGEFUSE" umount "$dir/mnt"
	umount "$dir/merged"
	exit 0
fi

# what a mount shows of itself
state_of()
{
	grep -F " $dir/mnt " /proc/mounts
	cat "$dir/mnt/.hugefuse/options"
	stat -c '%a %u %g' "$dir/mnt"
	stat -f -c '%S %b %f %a' "$dir/mnt"
}

read_back()
{
	local line=$1 options

	"$HUGEFUSE" mount -o "$line" "$dir/mnt" >/dev/null
	state_of >"$dir/first"
	# the options of /proc/mounts first, then those that only the daemon knows
	read -r _ _ _ options _ < <(grep -F " $dir/mnt " /proc/mounts)
	"$HUGEFUSE" umount "$dir/mnt"
	"$HUGEFUSE" mount -o "$options,size=16M,backing=hugetlb" "$dir/mnt" >/dev/null ||
		fail "the options of /proc/mounts are refused: $options"
	grep -F " $dir/mnt " /proc/mounts | cut -d ' ' -f 3- >"$dir/second"
	"$HUGEFUSE" umount "$dir/mnt"
	diff <(head -n 1 "$dir/first" | cut -d ' ' -f 3-) "$dir/second" ||
		fail "the line of /proc/mounts mounts something else"
	options=$(sed -n 2p "$dir/first")
	"$HUGEFUSE" mount -o "$options" "$dir/mnt" >/dev/null || fail "refused: $options"
	state_of >"$dir/second"
	"$HUGEFUSE" umount "$dir/mnt"
	diff "$dir/first" "$dir/second" || fail "the options do not mount the same again"
}

tools_agree()
{
	local used total free

	"$HUGEFUSE" mount -o size=32M,backing=hugetlb "$dir/mnt" >/dev/null
	fallocate -l 6M "$dir/mnt/a"
	truncate -s 20M "$dir/mnt/b"
	fallocate -o 4M -l 2M "$dir/mnt/b"
	total=$(counter nr_hugepages) free=$(counter free_hugepages)
	used=$((total - free))
	((used == 4)) || fail "$used pages in use instead of 4"
	[[ $(df --output=size,used,avail -B2M "$dir/mnt" | tail -n 1 | tr -s ' ') == " $total $used $free" ]] ||
		fail "df: $(df -B2M "$dir/mnt")"
	[[ $(stat -f -c '%S %b %f %a' "$dir/mnt") == "2097152 $total $free $free" ]] ||
		fail "stat -f: $(stat -f "$dir/mnt")"
	[[ $(du -s -B2M "$dir/mnt" | cut -f 1) == "$used" ]] || fail "du: $(du -s -B2M "$dir/mnt")"
	[[ $(du -B2M "$dir/mnt/b" | cut -f 1) == 1 ]] || fail "du of a file: $(du -B2M "$dir/mnt/b")"
	rm "$dir/mnt/a"
	[[ $(df --output=used -B2M "$dir/mnt" | tail -n 1 | tr -d ' ') == 1 ]] || fail "df after rm"
	"$HUGEFUSE" umount "$dir/mnt"
}

make_dir
mkdir "$dir/mnt"
before=$(machine_state)
read_back size=16M,backing=hugetlb
read_back size=16M,min_size=8M,backing=hugetlb,noexec,noatime,mode=1777,uid=7,gid=8,allow_other,ro
tools_agree
expect_state "$before" "at the end"
unshare -m --propagation private "$0" inside "$dir"
expect_state "$before" "with long lines"
