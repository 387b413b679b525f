#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# LMDB on a mount of transparent huge pages, with MDB_WRITEMAP and without: two writers at a time,
# both killed, and what they had committed is there.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
source "$(dirname "$0")/lib.sh"

start_writer()
{
	"$dir/lmdb" write "$dir/mnt/db" "$1" "$2" >"$dir/committed.$1" &
	writers+=("$!")
}

has_written()
{
	(($(wc -l <"$dir/committed.1") > 40 && $(wc -l <"$dir/committed.2") > 40))
}

kill_writers()
{
	local pid

	for pid in "${writers[@]}"; do
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	writers=()
}

take_down_writers()
{
	local exit_code=$?

	set +e
	kill_writers
	(exit "$exit_code")
	take_down
}

test_mode()
{
	local writemap=$1 number told found

	for round in 1 2 3; do
		mkdir "$dir/mnt/db"
		start_writer 1 "$writemap"
		start_writer 2 "$writemap"
		wait_for 60 has_written || fail "the writers do not get on"
		expect_pmd_mapped "${writers[0]}" 2048
		kill_writers
		for number in 1 2; do
			told=$(sort -n "$dir/committed.$number" | tail -n 1)
			found=$("$dir/lmdb" check "$dir/mnt/db" "$number" "$writemap") ||
				fail "round $round, writer $number"
			((found >= told)) || fail "round $round: $found keys of $told"
			echo "writemap=$writemap, round $round: $found keys"
		done
		rm -r "$dir/mnt/db"
	done
}

require_root
need_packages liblmdb-dev gcc libc6-dev
make_dir
writers=()
trap take_down_writers EXIT
cc -D_GNU_SOURCE -O2 -Wall -o "$dir/lmdb" "$(dirname "$0")/lmdb.c" -llmdb
mkdir "$dir/mnt"
before=$(machine_state)
"$HUGEFUSE" mount -o backing=thp,size=256M "$dir/mnt"
test_mode 0
test_mode 1
expect_no_fallback
"$HUGEFUSE" umount "$dir/mnt"
expect_state "$before" "the end"
