#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# PostgreSQL with all its data on a mount of transparent huge pages. With
# dynamic_shared_memory_type=mmap the hash table of a parallel join is in files there, which are
# mapped by huge pages; and after an immediate shutdown in the middle of pgbench everything is there
# that had been committed.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/programs/postgres.sh
source "$(dirname "$0")/postgres.sh"

clients=4
seconds=${POSTGRES_SECONDS:-5}

make_cluster()
{
	"$HUGEFUSE" mount -o backing=thp,size=384M,mode=1777 "$dir/mnt"
	data=$dir/mnt/data
	install -d -o postgres -m 0700 "$dir/pg"
	server initdb -D "$data" --auth=trust --data-checksums || fail "$(cat "$dir/server.out")"
	cat >>"$data/postgresql.conf" <<-END
		listen_addresses = ''
		unix_socket_directories = '$dir/pg'
		shared_buffers = 32MB
		dynamic_shared_memory_type = mmap
		max_parallel_workers_per_gather = 2
		min_parallel_table_scan_size = 0
		parallel_setup_cost = 0
		parallel_tuple_cost = 0
		work_mem = 64MB
	END
}

start()
{
	rm -f "$dir/pg/log"
	server pg_ctl -D "$data" -l "$dir/pg/log" -w -t 60 start ||
		fail "$(cat "$dir/pg/log" "$dir/server.out")"
}

# ---- a parallel join ----

make_tables()
{
	query "create table a as select n as id, n * 7919 as x from generate_series(1, 200000) n;
		create table b as select n as id, repeat(md5(n::text), 2) as y
			from generate_series(1, 200000) n;
		analyze a; analyze b;"
}

# All rows that match, summed up, for each of which the leader takes a lock, which it waits for.
join_query()
{
	cat <<-END
		select count(*), sum(x), sum(length(y)) from
			(select x, y from a join b using (id) offset 0) joined
		where pg_advisory_lock_shared(42)::text = ''
	END
}

hold_lock()
{
	mkfifo "$dir/pg/statements"
	as_postgres psql -h "$dir/pg" -d postgres -Atq <"$dir/pg/statements" \
		>"$dir/holder.out" 2>&1 &
	exec 8>"$dir/pg/statements"
	echo "select 'held', pg_advisory_lock(42);" >&8
	wait_for 10 grep -q held "$dir/holder.out" || fail "$(cat "$dir/holder.out")"
}

leader_that_waits()
{
	leader=$(query "select pid from pg_stat_activity
		where wait_event_type = 'Lock' and query like '%joined%'")
	[[ -n $leader ]]
}

shared_memory_kb()
{
	du -ck "$data"/pg_dynshmem/mmap.* | awk 'END { print $1 }'
}

test_parallel_query()
{
	local nr_files expected join

	start
	make_tables
	[[ $(query 'show dynamic_shared_memory_type') == mmap ]] || fail "not mmap"
	nr_files=$(find "$data/pg_dynshmem" -name 'mmap.*' | wc -l)
	((nr_files > 0)) || fail "no file in pg_dynshmem"
	expected="200000|$((7919 * 200000 * 200001 / 2))|$((64 * 200000))"
	[[ $(query "explain $(join_query)") == *"Parallel Hash Join"* ]] ||
		fail "not parallel: $(query "explain $(join_query)")"
	hold_lock
	query "$(join_query)" >"$dir/join.out" 2>&1 &
	join=$!
	wait_for 30 leader_that_waits || fail "no query waits: $(cat "$dir/join.out" "$dir/pg/log")"
	(($(find "$data/pg_dynshmem" -name 'mmap.*' | wc -l) > nr_files)) ||
		fail "no new file in pg_dynshmem"
	(($(shared_memory_kb) > 4096)) || fail "only $(shared_memory_kb) kB of shared memory"
	expect_pmd_mapped "$leader" 2048
	echo '\q' >&8 # the lock's holder ends
	exec 8>&-
	wait "$join" || fail "$(cat "$dir/join.out")"
	[[ $(<"$dir/join.out") == "$expected" ]] || fail "$(cat "$dir/join.out"), not $expected"
	(($(find "$data/pg_dynshmem" -name 'mmap.*' | wc -l) == nr_files)) ||
		fail "left behind: $(ls "$data/pg_dynshmem")"
	stop fast
}

# ---- an immediate shutdown ----

is_under_way()
{
	(($(cat "$dir"/pg/transactions.* | wc -l) > 500))
}

test_immediate_shutdown()
{
	local background committed

	start
	pgbench -i -s 2 || fail "$(cat "$dir/pgbench.out")"
	[[ $(query 'show fsync') == on ]] || fail "fsync is not on"
	pgbench -n -c "$clients" -j 2 -T 60 -l --log-prefix="$dir/pg/transactions" &
	background=$!
	wait_for 30 is_under_way || fail "$(cat "$dir/pgbench.out")"
	stop immediate
	wait "$background" && fail "pgbench did not notice"
	committed=$(cat "$dir"/pg/transactions.* | wc -l)
	start
	grep -q 'database system was not properly shut down' "$dir/pg/log" ||
		fail "no recovery: $(cat "$dir/pg/log")"
	check_books "after the recovery"
	(($(query 'select count(*) from pgbench_history') >= committed)) ||
		fail "$(query 'select count(*) from pgbench_history') of $committed transactions"
	pgbench -n -c "$clients" -j 2 -T "$seconds" || fail "$(cat "$dir/pgbench.out")"
	check_books "at the end"
	stop fast
	server pg_checksums --check -D "$data" || fail "$(cat "$dir/server.out")"
}

require_root
need_postgres
make_dir
trap take_down_server EXIT
mkdir "$dir/mnt"
before=$(machine_state)
make_cluster
for test in test_parallel_query test_immediate_shutdown; do
	echo "$test"
	"$test"
done
expect_no_fallback
rm -r "$data"
(($(counter free_hugepages) == $(counter nr_hugepages))) || fail "pages are still in use"
"$HUGEFUSE" umount "$dir/mnt"
expect_state "$before" "the end"
