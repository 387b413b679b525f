#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# hugefuse mount and umount from outside: what is refused gives one line and changes nothing, and
# everything is given back however a mount ends.
set -euo pipefail
# shellcheck source=tests/mount/lib.sh
source "$(dirname "$0")/lib.sh"

# Option lists, and what the error has to name.
bad_options=(
	"foo                       foo"
	"foo=1                     foo"
	"backing=disk              backing"
	"backing=thp,pagesize=1G   pagesize"
	"pagesize=3M               pagesize"
	"pagesize=                 pagesize"
	"size=abc                  size"
	"size=-1                   size"
	"size=2Mx                  size"
	"size=101%                 size"
	"size=99999999999G         size"
	"size=0                    size"
	"size=1M                   size"
	"min_size=8M,size=4M       min_size"
	"nr_inodes=x               nr_inodes"
	"uid=-1                    uid"
	"uid=nobody                uid"
	"gid=4294967296            gid"
	"mode=9                    mode"
	"mode=2000                 mode"
	"fault_mutexes=0           fault_mutexes"
	"fault_mutexes=1048577     fault_mutexes"
	"region_lock=all           region_lock"
	"fault_threads=0           fault_threads"
	"fault_threads=257         fault_threads"
	"ahead=maybe               ahead"
	"on_exhausted=never        on_exhausted"
	"on_exhausted=wait=0       on_exhausted"
	"plain=maybe               plain"
	"numa=near                 numa"
	"numa=bind:63              numa"
	"size=0:4M,63:4M           size"
	"size=0:4M,min_size=2M     min_size"
	"fallback=small            fallback"
	"avail_mask=yes            avail_mask"
	"alloc_sleep_ms=0          alloc_sleep_ms"
	"split_queue=node          split_queue"
	"split_marks=5             split_marks"
	"split_marks=10:5          split_marks"
	"split_marks=5:101         split_marks"
	"lockstat=2                lockstat"
	"size=4M,size=4M           size"
	"lockstat,nolockstat       lockstat"
)

test_bad_options()
{
	local line options name

	for line in "${bad_options[@]}"; do
		read -r options name <<<"$line"
		[[ $options == *size=* ]] || options+=,size=4M,backing=hugetlb
		expect_error 1 "$name" mount -o "$options" "$dir/mnt"
	done
}

test_usage()
{
	expect_error 2 MOUNTPOINT mount
	expect_error 2 MOUNTPOINT mount a b c
	expect_error 2 -x mount -x "$dir/mnt"
	expect_error 2 -o mount -o
	expect_error 2 nonsense nonsense
	expect_error 2 MOUNTPOINT umount
	expect_error 2 nonsense mount -d nonsense "$dir/mnt"
}

test_bad_mountpoints()
{
	: >"$dir/file"
	expect_error 1 "$dir/none" mount -o backing=hugetlb,size=4M "$dir/none"
	expect_error 1 "$dir/file" mount -o backing=hugetlb,size=4M "$dir/file"
	expect_error 1 "$dir/mnt" umount "$dir/mnt"
}

# The line says how many pages are needed, free, and could be had.
test_more_than_memory()
{
	local free

	free=$(($(cat "$pool/free_hugepages") - $(cat "$pool/resv_hugepages")))
	expect_error 1 "52428800 huge pages of 2048 kB" mount -o backing=hugetlb,size=100T "$dir/mnt"
	expect_error 1 " $free are free" mount -o backing=hugetlb,size=100T "$dir/mnt"
	expect_error 1 "52428800" mount -f -o backing=hugetlb,size=100T "$dir/mnt"
	expect_error 1 "52428800" mount -o backing=hugetlb,size=200T,min_size=100T "$dir/mnt"
}

test_no_root()
{
	local nobody='setpriv --reuid=65534 --regid=65534 --clear-groups' r=0

	if ! $nobody test -x "$HUGEFUSE"; then
		return
	fi
	# shellcheck disable=SC2086
	$nobody "$HUGEFUSE" mount -o backing=hugetlb,size=4M "$dir/mnt" 2>"$dir/err" || r=$?
	((r == 1)) || fail "mount as nobody: exit code $r"
	grep -q root "$dir/err" || fail "mount as nobody: $(cat "$dir/err")"
}

test_twice()
{
	local before

	before=$(machine_state)
	"$HUGEFUSE" mount -o backing=hugetlb,size=8M "$dir/mnt"
	expect_error 1 "mounted there already" mount -o backing=hugetlb,size=4M "$dir/mnt"
	[[ $(counter nr_hugepages) == 4 ]] || fail "twice: nr_hugepages $(counter nr_hugepages)"
	"$HUGEFUSE" umount "$dir/mnt"
	expect_state "$before" twice
}

# Per cent are of the kernel's pool.
test_per_cent()
{
	local before nr

	before=$(machine_state)
	nr=$(cat "$pool/nr_hugepages")
	echo $((nr + 8)) >"$pool/nr_hugepages"
	"$HUGEFUSE" mount -o backing=hugetlb,size=50% "$dir/mnt"
	[[ $(counter nr_hugepages) == $(((nr + 8) / 2)) ]] ||
		fail "50% of $((nr + 8)): $(counter nr_hugepages)"
	"$HUGEFUSE" umount "$dir/mnt"
	echo "$nr" >"$pool/nr_hugepages"
	expect_state "$before" "per cent"
}

# Pages that are free already are used first, and stay when they are given back.
test_existing_pages()
{
	local before nr

	before=$(machine_state)
	nr=$(cat "$pool/nr_hugepages")
	echo $((nr + 3)) >"$pool/nr_hugepages"
	"$HUGEFUSE" mount -o backing=hugetlb,size=16M "$dir/mnt"
	[[ $(cat "$pool/nr_hugepages") -le $((nr + 8)) ]] || fail "the free pages were not used"
	"$HUGEFUSE" umount "$dir/mnt"
	[[ $(cat "$pool/nr_hugepages") == $((nr + 3)) ]] || fail "not given back"
	echo "$nr" >"$pool/nr_hugepages"
	expect_state "$before" "existing pages"
}

# -f ends by a signal, with exit code 0, and says nothing.
test_foreground()
{
	local before signal pid r

	for signal in TERM INT HUP; do
		before=$(machine_state)
		r=0
		setsid "$HUGEFUSE" mount -f -o backing=hugetlb,size=8M "$dir/mnt" >"$dir/out" 2>&1 &
		pid=$!
		wait_for_mount "$dir/mnt"
		kill -"$signal" "$pid"
		wait "$pid" || r=$?
		((r == 0)) || fail "-f, $signal: exit code $r: $(cat "$dir/out")"
		! grep -qv '^hugefuse: .*, 8 MiB set aside; mapping: direct' "$dir/out" ||
			fail "-f, $signal: $(cat "$dir/out")"
		expect_state "$before" "-f, $signal"
	done
}

# A signal at any moment while it starts.
test_early_signal()
{
	local before pid delay

	for delay in 0 0.002 0.005 0.01 0.02 0.05; do
		before=$(machine_state)
		setsid "$HUGEFUSE" mount -f -o backing=hugetlb,size=32M "$dir/mnt" 2>/dev/null &
		pid=$!
		sleep "$delay"
		kill -TERM "$pid"
		wait "$pid" || true
		expect_state "$before" "SIGTERM after $delay s"
	done
}

test_dead_daemon()
{
	local before pid

	before=$(machine_state)
	setsid "$HUGEFUSE" mount -f -o backing=hugetlb,size=8M "$dir/mnt" >"$dir/out" 2>&1 &
	pid=$!
	wait_for_mount "$dir/mnt"
	dd if=/dev/zero of="$dir/mnt/file" bs=2M count=2 status=none
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
	"$HUGEFUSE" umount "$dir/mnt" || fail "umount of a dead daemon's mount: $?"
	expect_state "$before" "kill -9"
}

# As a shell does with a job in the background: it mounts when it returns.
test_background()
{
	local before

	before=$(machine_state)
	"$HUGEFUSE" mount -o backing=hugetlb,size=8M,fault_mutexes=3 "$dir/mnt"
	grep -q 'size=8M' "$dir/mnt/.hugefuse/options" || fail "$(cat "$dir/mnt/.hugefuse/options")"
	grep -q "^hugefuse $dir/mnt fuse.hugefuse rw" /proc/self/mounts ||
		fail "$(grep "$dir" /proc/self/mounts)"
	"$HUGEFUSE" umount "$dir/mnt"
	expect_state "$before" background
}

require_root
make_dir
mkdir "$dir/mnt"
for test in bad_options usage bad_mountpoints more_than_memory no_root twice per_cent \
	existing_pages foreground early_signal dead_daemon background; do
	echo "$test"
	"test_$test"
done
