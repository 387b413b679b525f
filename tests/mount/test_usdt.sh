#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The static probes: the program's ELF notes are what docs/tracing.md says, with as many arguments,
# and a debugger, or bpftrace where it may, that attaches to one is told when it fires.
set -euo pipefail
# shellcheck source=tests/mount/lib.sh
source "$(dirname "$0")/lib.sh"

table=$(dirname "$0")/../../docs/tracing.md

# name and number of arguments of each probe, as in the ELF notes.
probes_of_program()
{
	readelf -nW "$HUGEFUSE" | awk '
		/Provider:/ { ours = /Provider: hugefuse$/ }
		ours && /Name:/ { name = $2 }
		ours && /Arguments:/ { sub(/.*Arguments: */, ""); print name, split($0, words, " ") }
	' | sort -u
}

# The same of the table: | `name` | `argument` `argument` | ... |
probes_of_table()
{
	awk -F'|' '/^\| `[a-z_]+` \| `/ {
		gsub(/[` ]/, "", $2); print $2, split($3, words, "`[ ]*`") }' "$table" | sort
}

wait_for_line()
{
	local i

	for ((i = 0; i < 1000; i++)); do
		! grep -qF -e "$1" "$2" || return 0
		sleep 0.02
	done
	return 1
}

# Whether bpftrace may load programs here at all.
bpftrace_works()
{
	command -v bpftrace >/dev/null &&
		timeout 20 bpftrace -e 'BEGIN { exit(); }' >/dev/null 2>&1
}

try_bpftrace()
{
	local tracer

	timeout 60 bpftrace -e "BEGIN { printf(\"ready\\n\"); }
		usdt:$HUGEFUSE:hugefuse:page_taken { printf(\"page %d\\n\", arg1); exit(); }" \
		>"$dir/trace" 2>&1 &
	tracer=$!
	wait_for_line ready "$dir/trace" || fail "bpftrace: $(cat "$dir/trace")"
	truncate -s 2M "$dir/mnt/file"
	wait "$tracer" || fail "bpftrace: $(cat "$dir/trace")"
	grep -q '^page 0$' "$dir/trace" || fail "bpftrace: $(cat "$dir/trace")"
}

try_gdb()
{
	local tracer

	# shellcheck disable=SC2016 # gdb's own variable
	timeout 120 gdb -q -nx -batch -p "$1" -iex 'set debuginfod enabled off' \
		-ex 'break -probe-stap hugefuse:page_taken' \
		-ex 'printf "ready\n"' -ex 'continue' \
		-ex 'printf "page %d\n", $_probe_arg1' -ex 'detach' \
		>"$dir/trace" 2>&1 </dev/null &
	tracer=$!
	wait_for_line ready "$dir/trace" || fail "gdb: $(cat "$dir/trace")"
	truncate -s 2M "$dir/mnt/file"
	wait "$tracer" || fail "gdb: $(cat "$dir/trace")"
	grep -q '^page 0$' "$dir/trace" || fail "gdb: $(cat "$dir/trace")"
}

require_root
command -v readelf >/dev/null || skip "needs readelf"
[[ $(probes_of_program) ]] || skip "built without sys/sdt.h"
diff <(probes_of_table) <(probes_of_program) || fail "docs/tracing.md and the program differ"

make_dir
mkdir "$dir/mnt"
before=$(machine_state)
"$HUGEFUSE" mount -o size=16M,backing=thp "$dir/mnt" >/dev/null
wait_for_mount "$dir/mnt"
daemon=$(cat /run/hugefuse/*"${dir##*-}"*/state/pid)
if bpftrace_works; then
	try_bpftrace
elif command -v gdb >/dev/null; then
	try_gdb "$daemon"
else
	echo "nothing to attach with: bpftrace may not, or is not there, and there is no gdb"
fi
rm -f "$dir/mnt/file"
"$HUGEFUSE" umount "$dir/mnt"
expect_state "$before" "umount"
