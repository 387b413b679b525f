#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# hugefuse probe, as root and as nobody: what it says is what the kernel's files say, and nothing
# has changed afterwards.
set -euo pipefail
# shellcheck source=tests/mount/lib.sh
source "$(dirname "$0")/lib.sh"

# A value of probe's JSON, by keys: value hugetlb 0 nr.
value()
{
	python3 -c '
import json, sys
node = json.load(open(sys.argv[1], encoding="utf-8"))
for key in sys.argv[2:]:
    node = node[int(key) if isinstance(node, list) else key]
print(json.dumps(node) if isinstance(node, (dict, list, bool)) or node is None else node)
' "$dir/probe.json" "$@"
}

expect()
{
	local wanted=$1 got

	shift
	got=$(value "$@")
	[[ $got == "$wanted" ]] || fail "$*: '$got', not '$wanted'"
}

# The file's content, null where it is not there.
content()
{
	if [[ -r $1 ]]; then
		cat "$1"
	else
		echo null
	fi
}

chosen()
{
	sed 's/.*\[\(.*\)\].*/\1/' "$1"
}

compare_pages()
{
	local size i=0 name node j

	for size in $(printf '%s\n' /sys/kernel/mm/hugepages/*kB | sort -V); do
		expect "$(tr -dc 0-9 <<<"${size##*/}")" hugetlb $i kb
		expect "$(<"$size/nr_hugepages")" hugetlb $i nr
		expect "$(<"$size/free_hugepages")" hugetlb $i free
		expect "$(<"$size/resv_hugepages")" hugetlb $i reserved
		expect "$(<"$size/surplus_hugepages")" hugetlb $i surplus
		expect "$(<"$size/nr_overcommit_hugepages")" hugetlb $i overcommit
		j=0
		for node in /sys/devices/system/node/node[0-9]*; do
			name=$node/hugepages/${size##*/}
			[[ -d $name ]] || continue
			expect "$(<"$name/free_hugepages")" hugetlb $i nodes $j free
			j=$((j + 1))
		done
		i=$((i + 1))
	done
}

compare_files()
{
	local thp=/sys/kernel/mm/transparent_hugepage

	expect 1 schema
	expect "$(uname -r)" kernel
	expect "$(content /proc/sys/vm/max_map_count)" limits max_map_count
	expect "$(content /proc/sys/vm/unprivileged_userfaultfd)" userfaultfd unprivileged
	[[ ! -e $thp ]] || expect "$(chosen $thp/enabled)" thp enabled
	[[ ! -e /dev/userfaultfd ]] ||
		expect $((8#$(stat -c %a /dev/userfaultfd))) userfaultfd device_mode
	compare_pages
}

narrow()
{
	local wide

	wide=$(awk 'length > 80' "$1")
	[[ -z $wide ]] || fail "more than 80 columns: $wide"
}

as_root()
{
	local minor

	"$HUGEFUSE" probe --json >"$dir/probe.json"
	"$HUGEFUSE" probe >"$dir/text"
	narrow "$dir/text"
	compare_files
	expect true root
	expect full userfaultfd access
	expect true mounting possible
	expect available mapping run state
	expect "$(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo)" memory total_kb
	grep -q '^memory .* available$' "$dir/text" || fail "nothing about the memory"
	minor=$(uname -r | cut -d . -f 1,2)
	# Linux 6.9 brought it
	[[ $(printf '%s\n' 6.9 "$minor" | sort -V | head -n 1) == 6.9 ]] ||
		expect false fuse passthrough
	if [[ -r /proc/config.gz ]] && zgrep -qx CONFIG_FUSE_PASSTHROUGH=y /proc/config.gz; then
		expect true fuse passthrough
	fi
}

# Run the program as nobody, in a mount namespace in which /dev/fuse has mode $1.
by_nobody()
{
	local mode=$1

	shift
	# shellcheck disable=SC2016 # for the inner shell
	unshare -m bash -c '
		set -e
		mount -t tmpfs -o mode=0755 hugefuse-test "$1"
		mknod -m "$2" "$1/fuse" c 10 229
		mount --bind "$1/fuse" /dev/fuse
		shift 2
		exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
	' bash "$dir/dev" "$mode" "$dir/bin/hugefuse" "$@"
}

probe_as_nobody()
{
	by_nobody "$1" probe --json >"$dir/probe.json"
	by_nobody "$1" probe >"$dir/text"
	narrow "$dir/text"
	compare_files
	expect false root
	grep -q 'sudo hugefuse probe' "$dir/text" || fail "it does not say that root is needed"
}

as_nobody()
{
	# where that user can reach it, whatever it was built in
	mkdir "$dir/bin" "$dir/dev"
	cp "$HUGEFUSE" "$dir/bin/hugefuse"
	chmod 0755 "$dir/bin" "$dir/bin/hugefuse"
	by_nobody 666 --version >/dev/null || fail "nobody cannot run a copy of the program"

	probe_as_nobody 600
	expect false fuse device
	expect false mounting possible
	expect unavailable mapping direct state
	expect unavailable mapping run state
	grep -q 'chmod 0666 /dev/fuse' "$dir/text" || fail "it does not say how to get /dev/fuse"

	probe_as_nobody 666
	expect true fuse device
	expect true mounting possible
	expect available mapping cached state
	grep -q 'source=DIR' "$dir/text" || fail "it does not say how to mount"
	if [[ $(stat -c %a /dev/userfaultfd 2>/dev/null) == 600 &&
		$(content /proc/sys/vm/unprivileged_userfaultfd) == 0 ]]; then
		expect user-mode userfaultfd access
		expect limited mapping direct state
		expect limited mapping run state
		grep -q 'sysctl vm.unprivileged_userfaultfd=1' "$dir/text" ||
			fail "it does not say how to get a userfaultfd"
	fi
}

require_root
make_dir
before=$(machine_state)
mounts=$(</proc/self/mounts)
as_root
as_nobody
expect_error 2 "takes no operand: 'x'" probe x
expect_state "$before" probe
[[ $(</proc/self/mounts) == "$mounts" ]] || fail "mounts have changed"
