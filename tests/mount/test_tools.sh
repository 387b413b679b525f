#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the verbs say of real mounts: their JSON is what docs/json.md promises and agrees with
# .hugefuse; Prometheus's format is valid; a full pool, a file that was unlinked while it is
# mapped, and a process that died are each shown as what they are; resize does what it says.
#
# Needs HUGEFUSE, and MAP_IN_STEPS, the client.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=tests/mount/lib.sh
source "$here/lib.sh"

# A value of the JSON that the verb prints, by keys: value stat mounts 0 mountpoint -- MOUNTPOINT
value()
{
	local verb=$1
	local -a keys=()

	shift
	while [[ $1 != -- ]]; do
		keys+=("$1")
		shift
	done
	shift
	"$HUGEFUSE" "$verb" --json "$@" | python3 -c '
import json, sys
node = json.load(sys.stdin)
for key in sys.argv[1:]:
    node = node[int(key) if isinstance(node, list) else key]
print(json.dumps(node) if isinstance(node, (dict, list, bool)) or node is None else node)
' "${keys[@]}"
}

equal()
{
	[[ $1 == "$2" ]] || fail "$3: '$1', not '$2'"
}

# The program's output has the text.
says()
{
	local text=$1

	shift
	"$HUGEFUSE" "$@" >"$dir/says" || fail "$*: exit code $?"
	grep -qF -e "$text" "$dir/says" || fail "$*: no '$text' in: $(cat "$dir/says")"
}

# It fails and says so, among what it may have to say of other mounts.
fails()
{
	local text=$1 r=0

	shift
	"$HUGEFUSE" "$@" >"$dir/out" 2>"$dir/err" || r=$?
	((r == 1)) || fail "$*: exit code $r"
	[[ ! -s $dir/out ]] || fail "$*: wrote to standard output: $(cat "$dir/out")"
	grep -qF -e "$text" "$dir/err" || fail "$*: no '$text' in: $(cat "$dir/err")"
}

# Within ten seconds.
eventually()
{
	local end=$((SECONDS + 10))

	until "$@"; do
		((SECONDS < end)) || fail "not after ten seconds: $*"
		sleep 0.02
	done
}

# ---- a client ----

# Map $2 kB of the file $1 and touch the first half; sets client_pid.
start_client()
{
	mkfifo "$dir/steps"
	"$MAP_IN_STEPS" "$1" "$2" <"$dir/steps" >"$dir/done" &
	client_pid=$!
	exec 9>"$dir/steps"
	rm "$dir/steps"
	eventually grep -qx mapped "$dir/done"
	echo >&9
	eventually grep -qx 'half touched' "$dir/done"
}

kill_client()
{
	kill -KILL "$client_pid"
	exec 9>&-
	wait "$client_pid" 2>/dev/null || true
}

# ---- tests ----

test_json()
{
	local verb

	for verb in stat ls maps lockstat why; do
		"$HUGEFUSE" "$verb" --json "$dir/mnt" >"$dir/json"
		"$here/check_json" "$verb" "$dir/json" || fail "$verb --json"
	done
	"$HUGEFUSE" probe --json >"$dir/json"
	"$here/check_json" probe "$dir/json" || fail "probe --json"
	"$HUGEFUSE" why --json "$client_pid" >"$dir/json"
	"$here/check_json" why "$dir/json" || fail "why --json PID"
	# one that fails among others
	! "$HUGEFUSE" stat --json "$dir/mnt" / >"$dir/json" 2>/dev/null || fail "stat /: exit code 0"
	"$here/check_json" stat "$dir/json" || fail "stat --json with a failure"
	equal "$(value stat mounts 0 error -- "$dir/mnt")" null "stat: error"
}

test_numbers()
{
	local name key

	for name in nr free resv surplus nr_overcommit; do
		key=${name}_hugepages
		equal "$(value stat mounts 0 pools 0 "$key" -- "$dir/mnt")" "$(counter "$key")" "$key"
	done
	equal "$(value stat mounts 0 pools 0 total_bytes -- "$dir/mnt")" \
		$(($(counter nr_hugepages) * 2097152)) total_bytes
	# 16 MiB, half of which are touched, and 32 MiB in all
	equal "$(value maps mappings 0 pid -- "$dir/mnt")" "$client_pid" "maps: pid"
	equal "$(value maps mappings 0 instantiated_bytes -- "$dir/mnt")" 8388608 "maps: resident"
	equal "$(value maps mappings 0 reserved_bytes -- "$dir/mnt")" 8388608 "maps: reserved"
	equal "$(value maps mappings -- -p 1 "$dir/mnt")" '[]' "maps -p 1"
	equal "$(value stat mounts 0 stranded 0 kind -- "$dir/mnt")" mount "stranded: the mount's"
	equal "$(value stat mounts 0 stranded 0 reserved_bytes -- "$dir/mnt")" 16777216 \
		"stranded: the mount's"
	equal "$(value stat mounts 0 stranded 1 path -- "$dir/mnt")" /data "stranded: path"
	equal "$(value stat mounts 0 stranded 1 reserved_bytes -- "$dir/mnt")" 8388608 \
		"stranded: a file's"
	says "/data" stat "$dir/mnt"
	says "16 MiB" stat "$dir/mnt"
}

test_prometheus()
{
	local bad

	"$HUGEFUSE" stat --prometheus "$dir/mnt" >"$dir/prometheus"
	equal "$("$here/check_prometheus" "$dir/prometheus" \
		"hugefuse_pool_size_bytes{mount=\"$dir/mnt\",page_size=\"2097152\"}")" 33554432 \
		"pool_size_bytes"
	equal "$("$here/check_prometheus" "$dir/prometheus" \
		"hugefuse_untouched_bytes{mount=\"$dir/mnt\",kind=\"file\"}")" 8388608 \
		"untouched_bytes"
	equal "$("$here/check_prometheus" "$dir/prometheus" \
		"hugefuse_faults_total{mount=\"$dir/mnt\",kind=\"missing\"}")" \
		"$(awk '$1 == "faults_missing" { print $2 }' "$dir/mnt/.hugefuse/fault_stat")" \
		"faults_total"
	if command -v promtool >/dev/null; then
		promtool check metrics <"$dir/prometheus" || fail promtool
	fi
	# the parser is strict
	# shellcheck disable=SC2016 # sed's
	for bad in 's/_total/_count/g' 's/^# HELP.*//' '1d' '$a hugefuse_x{mount="a"} 1' \
		's/} [0-9]*$/} x/' 's/mount="/mount=/' 's/"mnt"/"\\x"/' 's/mount=/node=/' '2p' '3p'; do
		sed "$bad" "$dir/prometheus" >"$dir/bad"
		! cmp -s "$dir/prometheus" "$dir/bad" || continue
		! "$here/check_prometheus" "$dir/bad" 2>/dev/null || fail "taken: $bad"
	done
	expect_error 2 "not both" stat --json --prometheus "$dir/mnt"
}

# A mount point whose name wants escaping.
test_escapes()
{
	local odd

	odd=$dir/'a "b\c'
	mkdir "$odd"
	"$HUGEFUSE" mount -o backing=hugetlb,size=4M "$odd" >/dev/null
	"$HUGEFUSE" stat --prometheus "$odd" >"$dir/prometheus"
	"$here/check_prometheus" "$dir/prometheus" || fail "escapes"
	grep -qF 'a \"b\\c"' "$dir/prometheus" || fail "not escaped: $(head -3 "$dir/prometheus")"
	equal "$(value stat mounts 0 mountpoint -- "$odd")" "$odd" "escapes: mountpoint"
	"$HUGEFUSE" umount "$odd"
}

test_ls()
{
	equal "$(value ls files 0 path -- --sort resident "$dir/mnt")" /data "ls --sort resident"
	equal "$(value ls files 0 path -- --sort reserved "$dir/mnt")" /data "ls --sort reserved"
	equal "$(value ls files 0 path -- --sort mappings "$dir/mnt")" /data "ls --sort mappings"
	equal "$(value ls files 0 path -- --sort size -r "$dir/mnt")" /small "ls --sort size -r"
	equal "$(value ls files 0 path -- "$dir/mnt")" "/a b" "ls"
	equal "$(value ls files 0 path -- --reverse "$dir/mnt")" /small "ls --reverse"
	expect_error 2 "--sort age" ls --sort age "$dir/mnt"
}

test_lockstat()
{
	value lockstat locks -- "$dir/mnt" >"$dir/json"
	python3 -c '
import json, sys
waits = [lock["waittime_us"]["total"] for lock in json.load(sys.stdin)]
sys.exit(waits != sorted(waits, reverse=True))' <"$dir/json" || fail "lockstat: not by wait"
	"$HUGEFUSE" lockstat --reset "$dir/mnt"
	value lockstat locks -- "$dir/mnt" >"$dir/json"
	# what reading takes itself is all there is
	python3 -c '
import json, sys
locks = {(l["class"], l["mode"]): l["acquisitions"] for l in json.load(sys.stdin)}
sys.exit(locks["fault_mutex", "exclusive"] != 0)' <"$dir/json" || fail "lockstat --reset"
}

# Paths and processes, also one that is gone.
test_why()
{
	says "8 MiB are reserved but were never touched" why "$dir/mnt/data"
	says "($client_pid)" why "$dir/mnt/data"
	says "rm '$dir/mnt/data'" why "$dir/mnt/data"
	says "$dir/mnt/data" why "$client_pid"
	says "it holds no pages" why "$dir/mnt/small"
	says "are set aside for the mount" why "$dir/mnt"
	expect_error 1 "not on a hugefuse mount" why /
	expect_error 1 "no file with huge pages" why "$dir/mnt/none"
	fails "process $$: has no pages" why $$
	expect_error 2 "one PATH or PID" why
}

test_unlinked()
{
	rm "$dir/mnt/data"
	says "/data (deleted)" ls "$dir/mnt"
	says "it has no name any more, but is still mapped or open" why "$dir/mnt/data (deleted)"
	says "unmaps and closes it, or ends: map_in_steps ($client_pid)" why \
		"$dir/mnt/data (deleted)"
	says "without a name" why "$dir/mnt"
}

nothing_is_used()
{
	[[ $(counter free_hugepages) == "$(counter nr_hugepages)" ]]
}

test_dead_process()
{
	kill_client
	eventually nothing_is_used
	equal "$(value maps mappings -- "$dir/mnt")" '[]' "maps of a dead process"
	fails "process $client_pid: there is none" why "$client_pid"
	# what a shared mapping has reserved stays with the file
	start_client "$dir/mnt/data" 16384
	kill_client
	eventually test "$(value maps mappings -- "$dir/mnt")" == '[]'
	says "nobody has them mapped: a shared reservation stays with its file" why "$dir/mnt/data"
	equal "$(value stat mounts 0 stranded 1 reserved_bytes -- "$dir/mnt")" 8388608 \
		"stranded by a dead process"
	rm "$dir/mnt/data"
	eventually nothing_is_used
}

# With no page left everything is still to be seen.
test_exhausted()
{
	local verb

	dd if=/dev/zero of="$dir/mnt/full" bs=1M count=32 status=none
	equal "$(counter free_hugepages)" 0 "a full pool"
	for verb in stat ls maps lockstat why; do
		"$HUGEFUSE" "$verb" "$dir/mnt" >/dev/null || fail "$verb with a full pool"
	done
	"$HUGEFUSE" top -b -n 1 "$dir/mnt" >/dev/null || fail "top with a full pool"
	equal "$(value stat mounts 0 pools 0 free_bytes -- "$dir/mnt")" 0 "free_bytes"
	says "/full: 32 MiB instantiated" why "$dir/mnt"
	rm "$dir/mnt/full"
	eventually nothing_is_used
}

resize()
{
	local code=$1 r=0

	shift
	"$HUGEFUSE" resize "$@" >"$dir/out" 2>"$dir/err" || r=$?
	((r == code)) || fail "resize $*: exit code $r, not $code: $(cat "$dir/err")"
}

test_resize()
{
	resize 0 "$dir/mnt" 16M
	equal "$(counter nr_hugepages)" 8 "resize 16M"
	resize 0 "$dir/mnt" +50%
	equal "$(counter nr_hugepages)" 12 "resize +50%"
	resize 0 "$dir/mnt" -4M
	equal "$(counter nr_hugepages)" 10 "resize -4M"
	resize 0 --json "$dir/mnt" 32M
	"$here/check_json" resize "$dir/out" || fail "resize --json"
	# more than max_size= allows: what is to be had
	resize 3 "$dir/mnt" 1T
	equal "$(counter nr_hugepages)" 16 "resize 1T"
	grep -q 'got 32 MiB of 1 TiB' "$dir/err" || fail "resize 1T: $(cat "$dir/err")"
	# less than is in use
	dd if=/dev/zero of="$dir/mnt/used" bs=1M count=8 status=none
	resize 3 "$dir/mnt" 0
	equal "$(counter nr_hugepages)" 4 "resize 0"
	grep -q 'still 8 MiB instead of 0' "$dir/err" || fail "resize 0: $(cat "$dir/err")"
	rm "$dir/mnt/used"
	eventually test "$(counter nr_hugepages)" == 0
	resize 0 "$dir/mnt" 32M
	expect_error 2 "'64X' is no size" resize "$dir/mnt" 64X
	expect_error 2 "out of range" resize "$dir/mnt" -1T
	expect_error 2 "a MOUNTPOINT and a SIZE" resize "$dir/mnt"
	expect_error 1 "not the root of a hugefuse mount" resize / 4M
}

test_errors()
{
	local verb

	for verb in stat ls maps lockstat top; do
		expect_error 1 "$dir/nowhere" "$verb" "$dir/nowhere"
		expect_error 2 "--nonsense" "$verb" --nonsense
	done
	expect_error 2 "-p" maps -p 0 "$dir/mnt"
	expect_error 2 "'-d 0'" top -b -d 0
	expect_error 2 "'-n 0'" top -b -n 0
	expect_error 2 "--sort x" top -b --sort x
	expect_error 1 "use -b" top "$dir/mnt"
}

# A tenant, in stat and in its own verb.
test_tenants()
{
	mkdir "$dir/mnt/tenant"
	"$HUGEFUSE" quota "$dir/mnt/tenant" size=8M,min_size=4M >/dev/null
	dd if=/dev/zero of="$dir/mnt/tenant/file" bs=1M count=2 status=none
	"$HUGEFUSE" quota --json "$dir/mnt/tenant" >"$dir/json"
	"$here/check_json" quota "$dir/json" || fail "quota --json"
	"$HUGEFUSE" stat --json "$dir/mnt" >"$dir/json"
	"$here/check_json" stat "$dir/json" || fail "stat --json with a tenant"
	equal "$(value stat mounts 0 tenants 0 path -- "$dir/mnt")" /tenant "tenant: path"
	equal "$(value stat mounts 0 tenants 0 size -- "$dir/mnt")" 8388608 "tenant: size"
	equal "$(value stat mounts 0 tenants 0 used -- "$dir/mnt")" 2097152 "tenant: used"
	says "/tenant" stat "$dir/mnt"
	says "/tenant" top -b -n 1 "$dir/mnt"
	says "it is a tenant with min_size=4 MiB" why "$dir/mnt/tenant"
	"$HUGEFUSE" stat --prometheus "$dir/mnt" >"$dir/prometheus"
	equal "$("$here/check_prometheus" "$dir/prometheus" \
		"hugefuse_tenant_used_bytes{mount=\"$dir/mnt\",tenant=\"/tenant\"}")" 2097152 \
		"tenant_used_bytes"
	rm -r "$dir/mnt/tenant"
}

# A hole in a huge page that was only noted, on a mount of its own.
test_split()
{
	mkdir "$dir/thp"
	"$HUGEFUSE" mount -o backing=thp,size=16M,split_queue=tenant-node,split_marks=0:0 \
		"$dir/thp" >/dev/null
	equal "$(value stat mounts 0 splits -- "$dir/thp")" "[]" "split: none"
	python3 -c '
import ctypes, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, b"x" * (2 << 20))
libc = ctypes.CDLL(None, use_errno=True)
sys.exit(libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(1 << 20)) != 0)
' "$dir/thp/file" || fail "cannot punch a hole"
	"$HUGEFUSE" stat --json "$dir/thp" >"$dir/json"
	"$here/check_json" stat "$dir/json" || fail "stat --json with a noted hole"
	equal "$(value stat mounts 0 splits 0 queued -- "$dir/thp")" 1 "split: queued"
	equal "$(value stat mounts 0 splits 0 tenant -- "$dir/thp")" / "split: tenant"
	equal "$(value stat mounts 0 splits 0 could_free_bytes -- "$dir/thp")" 1048576 \
		"split: could_free_bytes"
	says "COULD FREE" stat "$dir/thp"
	"$HUGEFUSE" stat --prometheus "$dir/thp" >"$dir/prometheus"
	equal "$("$here/check_prometheus" "$dir/prometheus" \
		"hugefuse_split_could_free_bytes{mount=\"$dir/thp\",tenant=\"/\",node=\"0\"}")" \
		1048576 "split_could_free_bytes"
	rm "$dir/thp/file"
	"$HUGEFUSE" umount "$dir/thp"
}

# The pool is for everybody to see, who has what is not.
test_nobody()
{
	local nobody='setpriv --reuid=65534 --regid=65534 --clear-groups' r=0

	# shellcheck disable=SC2086
	if ! $nobody "$HUGEFUSE" --version &>/dev/null; then
		return
	fi
	# shellcheck disable=SC2086
	$nobody "$HUGEFUSE" stat --json "$dir/mnt" >"$dir/json" || fail "stat as nobody"
	"$here/check_json" stat "$dir/json" || fail "stat --json as nobody"
	# shellcheck disable=SC2086
	$nobody "$HUGEFUSE" stat --prometheus "$dir/mnt" >"$dir/prometheus"
	"$here/check_prometheus" "$dir/prometheus" || fail "stat --prometheus as nobody"
	# shellcheck disable=SC2086
	$nobody "$HUGEFUSE" why "$dir/mnt" 2>"$dir/err" || r=$?
	((r == 1)) || fail "why as nobody: exit code $r"
	grep -q 'try it as root' "$dir/err" || fail "why as nobody: $(cat "$dir/err")"
	# shellcheck disable=SC2086
	$nobody "$HUGEFUSE" top -b -n 1 "$dir/mnt" >"$dir/out" || fail "top as nobody"
	grep -q 'for root to see' "$dir/out" || fail "top as nobody: $(cat "$dir/out")"
}

require_root
command -v python3 >/dev/null || skip "needs python3"
make_dir
mkdir "$dir/mnt"
before=$(machine_state)
"$HUGEFUSE" mount -o backing=hugetlb,size=32M "$dir/mnt" >/dev/null
: >"$dir/mnt/small"
truncate -s 1M "$dir/mnt/a b"
start_client "$dir/mnt/data" 16384
for test in json numbers prometheus ls lockstat why unlinked dead_process exhausted resize \
	errors tenants split nobody escapes; do
	echo "$test"
	"test_$test"
done
"$HUGEFUSE" umount "$dir/mnt"
expect_state "$before" "the tools"
