#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# redis-server with its snapshots and its append-only file on a mount, of either backing: killed in
# the middle and started again it has everything that it had confirmed.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
source "$(dirname "$0")/lib.sh"

nr_keys=20000

ask()
{
	redis-cli -s "$dir/socket" "$@"
}

start_redis()
{
	redis-server --port 0 --unixsocket "$dir/socket" --dir "$dir/mnt/redis" --save '' \
		--appendonly yes --appendfsync always --daemonize no "$@" >>"$dir/out" 2>&1 &
	redis=$!
	wait_for 30 answers || fail "$(cat "$dir/out")"
}

answers()
{
	[[ $(ask ping) == PONG ]]
}

kill_redis()
{
	kill -KILL "$redis"
	wait "$redis" 2>/dev/null || true
}

# Keys $1 to $2 with values that can be told from the key.
set_keys()
{
	local i

	for ((i = $1; i <= $2; i++)); do
		printf 'SET key:%d %064d\n' "$i" $((i * 7919))
	done | ask >"$dir/replies"
	(($(grep -c '^OK$' "$dir/replies") == $2 - $1 + 1)) || fail "$(sort "$dir/replies" | uniq -c)"
}

check_keys()
{
	local i

	(($(ask dbsize) == $2)) || fail "$1: $(ask dbsize) keys, not $2"
	for ((i = 1; i <= $2; i += 997)); do
		[[ $(ask get "key:$i") == "$(printf %064d $((i * 7919)))" ]] || fail "$1: key:$i"
	done
}

test_backing()
{
	"$HUGEFUSE" mount -o "backing=$1,size=128M" "$dir/mnt"
	mkdir "$dir/mnt/redis"
	start_redis
	set_keys 1 "$nr_keys"
	kill_redis
	start_redis
	check_keys "after the first kill" "$nr_keys"
	[[ $(ask bgrewriteaof) == *"rewriting started"* ]] || fail "no rewrite"
	wait_for 30 rewritten || fail "$(ask info persistence)"
	[[ $(ask save) == OK ]] || fail "no snapshot: $(cat "$dir/out")"
	set_keys $((nr_keys + 1)) $((nr_keys + 1000))
	kill_redis
	redis-check-rdb "$dir/mnt/redis/dump.rdb" >"$dir/check" || fail "$(cat "$dir/check")"
	start_redis
	check_keys "after the second kill" $((nr_keys + 1000))
	ask shutdown nosave >/dev/null
	wait "$redis" || fail "redis ended with $?"
	start_redis --appendonly no
	check_keys "from the snapshot" "$nr_keys"
	ask shutdown nosave >/dev/null
	wait "$redis" || fail "redis ended with $?"
	redis=
	expect_no_fallback
	"$HUGEFUSE" umount "$dir/mnt"
}

rewritten()
{
	ask info persistence | grep -q '^aof_rewrite_in_progress:0' &&
		ask info persistence | grep -q '^aof_last_bgrewrite_status:ok'
}

take_down_redis()
{
	local exit_code=$?

	set +e
	[[ -z ${redis-} ]] || kill -KILL "$redis" 2>/dev/null
	(exit "$exit_code")
	take_down
}

require_root
need_packages redis-server redis-tools
make_dir
trap take_down_redis EXIT
mkdir "$dir/mnt"
before=$(machine_state)
for backing in thp hugetlb; do
	echo "backing=$backing"
	test_backing "$backing"
done
expect_state "$before" "the end"
