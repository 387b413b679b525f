# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sourced by the tests of the command line on real mounts: needs HUGEFUSE, the program. Exit codes
# are meson's: 77 is "skipped".

pool=/sys/kernel/mm/hugepages/hugepages-2048kB
dir=

skip()
{
	echo "skipped: $*"
	exit 77
}

fail()
{
	echo "FAILED: $*" >&2
	exit 1
}

require_root()
{
	((EUID == 0)) || skip "needs root"
	[[ -w /dev/fuse ]] || skip "needs /dev/fuse"
	[[ -w $pool/nr_hugepages ]] || skip "the kernel has no huge pages of 2 MB"
	[[ -x ${HUGEFUSE-} ]] || fail "set HUGEFUSE to the program under test"
}

# What may not change: the kernel's pool, mounts, and what daemons have in /run/hugefuse.
machine_state()
{
	grep -H . "$pool"/*
	grep -F -e hugefuse -e hugetlbfs -e "$dir" /proc/self/mounts || true
	[[ ! -d /run/hugefuse ]] || find /run/hugefuse -mindepth 1 ! -name .kernel-pool.lock | sort
}

# The state as $1 within two seconds: a process's end may take a moment to show.
expect_state()
{
	local now i

	for ((i = 0; i < 100; i++)); do
		now=$(machine_state)
		[[ $now != "$1" ]] || return 0
		sleep 0.02
	done
	diff <(printf '%s\n' "$1") <(printf '%s\n' "$now") >&2 || true
	fail "$2: the machine is not as before"
}

# A directory to mount on, set in $dir; at the end whatever is mounted there goes.
make_dir()
{
	dir=$(mktemp -d "${TMPDIR:-/tmp}/hugefuse-test-XXXXXX")
	trap take_down EXIT
	chmod 0711 "$dir"
}

take_down()
{
	local exit_code=$?

	if grep -qF " $dir/" /proc/self/mounts || grep -qF " $dir " /proc/self/mounts; then
		"$HUGEFUSE" umount -f "$dir/mnt" || umount -l "$dir/mnt" || true
	fi
	rm -rf --one-file-system "$dir"
	exit "$exit_code"
}

# Run the program and expect exit code $1 and one line on standard error that contains $2, nothing
# on standard output, and nothing changed.
expect_error()
{
	local code=$1 text=$2 before r=0

	shift 2
	before=$(machine_state)
	timeout 30 "$HUGEFUSE" "$@" >"$dir/out" 2>"$dir/err" || r=$?
	((r == code)) || fail "$*: exit code $r, not $code: $(cat "$dir/err")"
	[[ ! -s $dir/out ]] || fail "$*: wrote to standard output: $(cat "$dir/out")"
	(($(wc -l <"$dir/err") == 1)) || fail "$*: not one line: $(cat "$dir/err")"
	grep -qF -e "$text" "$dir/err" || fail "$*: no '$text' in: $(cat "$dir/err")"
	expect_state "$before" "$*"
}

wait_for_mount()
{
	local i

	for ((i = 0; i < 500; i++)); do
		[[ ! -e $1/.hugefuse/options ]] || return 0
		sleep 0.02
	done
	fail "$1: not mounted after ten seconds"
}


counter()
{
	cat "$dir/mnt/.hugefuse/hugepages-2048kB/$1"
}
