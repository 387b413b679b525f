#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# PostgreSQL with its shared memory in the pages of a mount: reserved as a whole at the start, or
# refused there; pgbench; one backend killed, after which the server starts anew; the books balance.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/programs/postgres.sh
source "$(dirname "$0")/postgres.sh"

clients=4
seconds=${POSTGRES_SECONDS:-5}

# Start it with huge_pages=$1 and its memory from the mount.
start()
{
	rm -f "$dir/pg/log"
	server "$HUGEFUSE" run -m "$dir/mnt" -- pg_ctl -D "$data" -l "$dir/pg/log" -w -t 60 \
		-o "-c huge_pages=$1" start
}

mount_pages()
{
	"$HUGEFUSE" mount -o "backing=hugetlb,size=$((2 * $1))M,mode=1777" "$dir/mnt"
}

make_cluster()
{
	data=$dir/pg/data
	install -d -o postgres -m 0700 "$dir/pg"
	server initdb -D "$data" --auth=trust
	cat >>"$data/postgresql.conf" <<-END
		listen_addresses = ''
		unix_socket_directories = '$dir/pg'
		shared_buffers = 64MB
		fsync = off
	END
	nr_pages=$(as_postgres postgres -D "$data" -C shared_memory_size_in_huge_pages)
	((nr_pages > 16)) || fail "$nr_pages pages of shared memory"
}

test_too_small()
{
	mount_pages $((nr_pages - 1))
	! start on || fail "it started with a page too few"
	grep -q 'could not map anonymous shared memory: Cannot allocate memory' "$dir/pg/log" ||
		fail "$(cat "$dir/pg/log" "$dir/server.out")"
	start try || fail "huge_pages=try: $(cat "$dir/pg/log")"
	[[ $(query 'select 6 * 7') == 42 ]] || fail "no answer"
	(($(counter free_hugepages) == nr_pages - 1)) || fail "pages are in use with huge_pages=try"
	stop fast
	"$HUGEFUSE" umount "$dir/mnt"
}

# What hugefuse ls shows of the memory: pages reserved and resident.
memory_pages()
{
	"$HUGEFUSE" ls --json "$dir/mnt" | python3 -c '
import json, sys
files = json.load(sys.stdin)["files"]
print(sum(f["reserved_pages"] + f["instantiated_pages"] for f in files))'
}

kill_one_backend()
{
	local pid

	pid=$(query "select pid from pg_stat_activity
		where query like 'UPDATE%' and pid <> pg_backend_pid() limit 1")
	[[ -n $pid ]] || pid=$(query "select pid from pg_stat_activity
		where backend_type = 'client backend' and pid <> pg_backend_pid() limit 1")
	kill -KILL "$pid"
}

is_restarted()
{
	grep -q 'all server processes terminated; reinitializing' "$dir/pg/log" &&
		[[ $(query 'select 1') == 1 ]]
}

test_pgbench()
{
	local background

	mount_pages "$nr_pages"
	start on || fail "$(cat "$dir/pg/log" "$dir/server.out")"
	[[ $(query 'show huge_pages') == on ]] || fail "huge_pages is not on"
	(($(memory_pages) == nr_pages)) || fail "$(memory_pages) pages, not $nr_pages"
	pgbench -i -s 2 || fail "$(cat "$dir/pgbench.out")"
	pgbench -n -c "$clients" -j 2 -T "$seconds" || fail "$(cat "$dir/pgbench.out")"
	check_books "after pgbench"
	pgbench -n -c "$clients" -j 2 -T 60 &
	background=$!
	wait_for 20 kill_one_backend || fail "no backend to kill"
	wait "$background" && fail "pgbench did not notice"
	wait_for 60 is_restarted || fail "no restart: $(cat "$dir/pg/log")"
	(($(memory_pages) == nr_pages)) || fail "$(memory_pages) pages after the restart"
	check_books "after the crash"
	pgbench -n -c "$clients" -j 2 -T "$seconds" || fail "$(cat "$dir/pgbench.out")"
	check_books "at the end"
	stop fast
	wait_for 5 test "$(counter free_hugepages)" -eq "$nr_pages" || fail "pages are still in use"
	"$HUGEFUSE" umount "$dir/mnt"
}

require_root
need_packages python3-minimal
need_postgres
make_dir
trap take_down_server EXIT
mkdir "$dir/mnt"
before=$(machine_state)
make_cluster
for test in test_too_small test_pgbench; do
	echo "$test"
	"$test"
done
expect_state "$before" "the end"
