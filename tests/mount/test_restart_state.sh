#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The state of a daemon that was killed: what is refused and why, what fsck mends, what reap gives
# back, and that a daemon that lives is left alone.
set -euo pipefail

# shellcheck source=tests/mount/lib.sh
. "$(dirname "$0")/lib.sh"

require_root
make_dir
mnt=$dir/mnt
mkdir "$mnt"

run_dir()
{
	local name=${mnt#/}

	name=${name//-/\\x2d}
	echo "/run/hugefuse/${name//\//-}"
}

# Everything of a run directory but what a daemon writes for itself.
kill_daemon()
{
	local pid

	pid=$(cat "$(run_dir)/state/pid")
	kill -9 "$pid"
	while kill -0 "$pid" 2>/dev/null && ! grep -q '^State:.*Z' "/proc/$pid/status"; do
		sleep 0.01
	done
	# the lock goes with the last thread
	flock -w 5 "$(run_dir)/state" true
}

mount_it()
{
	"$HUGEFUSE" mount "$@" "$mnt" >"$dir/out" 2>&1 || fail "mount $*: $(cat "$dir/out")"
}

make_file()
{
	head -c $((5 << 20)) /dev/urandom >"$mnt/file"
	md5sum <"$mnt/file" >"$dir/sum"
}

check_file()
{
	[[ $(md5sum <"$mnt/file") == $(cat "$dir/sum") ]] || fail "$1: other data"
}

flip_byte()
{
	local byte

	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	# shellcheck disable=SC2059 # that is what makes the byte
	printf "\\x$(printf %02x $((byte ^ 255)))" |
		dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

before=$(machine_state)

echo second_daemon
mount_it -o backing=hugetlb,size=16M
expect_error 1 "mounted there already" mount -o backing=hugetlb,size=16M "$mnt"
expect_error 1 "it is mounted" fsck "$mnt"
"$HUGEFUSE" reap "$mnt" >"$dir/out"
[[ ! -s $dir/out ]] || fail "reap of a daemon that lives: $(cat "$dir/out")"
make_file

echo other_sizes
kill_daemon
for other in size=32M size=16M,min_size=8M max_size=32M backing=thp; do
	expect_error 1 "the mount whose daemon died has another" mount -o "$other" "$mnt"
done

echo torn_tail
printf 'HFSJ\1\2\3' >>"$(run_dir)/state/journal"
"$HUGEFUSE" fsck "$mnt" >"$dir/out" || fail "fsck of a torn tail: $(cat "$dir/out")"
grep -q 'last 7 bytes' "$dir/out" || fail "fsck: $(cat "$dir/out")"
mount_it -f -o size=16M >"$dir/log" 2>&1 &
wait_for_mount "$mnt"
grep -q 'last 7 bytes of the journal were not written to the end' "$dir/out" ||
	fail "no warning: $(cat "$dir/out")"
check_file torn_tail
kill_daemon
wait || true

echo corrupt_middle
flip_byte "$(run_dir)/state/journal" 20
expect_error 1 "damaged at byte 0" mount "$mnt"
! "$HUGEFUSE" fsck "$mnt" >"$dir/out" || fail "fsck says nothing of the damage"
grep -q "damaged at byte 0" "$dir/out" || fail "fsck: $(cat "$dir/out")"
expect_error 1 "damaged at byte 0" mount "$mnt"
"$HUGEFUSE" fsck --repair "$mnt" >"$dir/out" || fail "fsck --repair: $(cat "$dir/out")"
"$HUGEFUSE" fsck "$mnt" >"$dir/out" || fail "fsck after the repair: $(cat "$dir/out")"
grep -q "clean" "$dir/out" || fail "fsck after the repair: $(cat "$dir/out")"
mount_it -o size=16M
check_file corrupt_middle
(($(counter nr_hugepages) == 8 && $(counter free_hugepages) == 5)) || fail "other counters"
"$HUGEFUSE" umount "$mnt"
expect_state "$before" "after the repair"

echo no_journal
mount_it -o backing=hugetlb,size=16M
make_file
kill_daemon
head -c 4096 /dev/urandom >"$(run_dir)/state/journal"
"$HUGEFUSE" fsck --repair "$mnt" >"$dir/out" || fail "fsck --repair: $(cat "$dir/out")"
mount_it
check_file no_journal
"$HUGEFUSE" umount "$mnt"
expect_state "$before" "after a repair without a journal"

echo reap
for backing in hugetlb thp; do
	mount_it -o "backing=$backing,size=16M"
	make_file
	kill_daemon
	"$HUGEFUSE" reap --dry-run "$mnt" >"$dir/out"
	grep -q "^$mnt: to be given back: [1-9][0-9]* pages of 2048 kB" "$dir/out" ||
		fail "reap --dry-run: $(cat "$dir/out")"
	[[ $backing == thp ]] || grep -q ": 3 pages of 2048 kB in 1 files" "$dir/out" ||
		fail "reap --dry-run: $(cat "$dir/out")"
	[[ -d $(run_dir) ]] || fail "reap --dry-run has removed it"
	"$HUGEFUSE" reap "$mnt" >"$dir/out2"
	[[ $(sed 's/to be given back/given back/' "$dir/out") == $(cat "$dir/out2") ]] ||
		fail "reap: $(cat "$dir/out2")"
	expect_state "$before" "reap of $backing"
	"$HUGEFUSE" reap "$mnt" >"$dir/out"
	[[ ! -s $dir/out ]] || fail "reap of nothing: $(cat "$dir/out")"
done

echo umount_of_a_dead_one
for force in "" --force; do
	mount_it -o backing=hugetlb,size=16M
	make_file
	kill_daemon
	# shellcheck disable=SC2086 # none or one
	"$HUGEFUSE" umount $force "$mnt" || fail "umount $force of a dead one"
	expect_state "$before" "umount $force of a dead one"
done
