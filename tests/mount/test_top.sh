#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# hugefuse top in tmux: at 80x24 and 200x50 the screen has its parts, and its numbers are those
# of the other verbs; keys, resizing while it runs, terminals that can less; and the terminal is
# put back however it ends.
#
# Needs HUGEFUSE, and MAP_IN_STEPS, the client.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=tests/mount/lib.sh
source "$here/lib.sh"

# No server of anybody else's, no settings of the user's.
in_tmux()
{
	env -u TMUX tmux -S "$dir/tmux" -f /dev/null "$@"
}

screen()
{
	in_tmux capture-pane -p -t top
}

show_screen()
{
	fail "$*; the screen is:
$(screen)"
}

# The command succeeds within ten seconds.
eventually()
{
	local end=$((SECONDS + 10))

	until "$@"; do
		((SECONDS < end)) || show_screen "not after ten seconds: $*"
		sleep 0.02
	done
}

has()
{
	screen | grep -F -e "$1" >/dev/null
}

has_not()
{
	! has "$1"
}

# A terminal of $1 x $2 where top runs with TERM=$3, and the arguments that follow. It says how top
# ended, what the terminal's settings were before and are after, and waits.
start()
{
	local columns=$1 rows=$2 term=$3

	shift 3
	rm -f "$dir"/{settings,after,code}
	cat >"$dir/shell" <<-END
		stty -g >'$dir/settings'
		r=0
		TERM=$term '$HUGEFUSE' top $* '$dir/mnt' || r=\$?
		stty -g >'$dir/after'
		echo "ended with \$r"
		echo \$r >'$dir/code'
		read -r
	END
	in_tmux new-session -d -s top -x "$columns" -y "$rows" bash "$dir/shell"
}

pid_of_top()
{
	pgrep -f -- "top .*$dir/mnt" | while read -r pid; do
		[[ $(readlink "/proc/$pid/exe") == "$(readlink -f "$HUGEFUSE")" ]] && echo "$pid"
	done | head -n 1
}

# Top has ended with code $1, and left the terminal as it was.
expect_end()
{
	eventually test -s "$dir/code"
	[[ $(<"$dir/code") == "$1" ]] || show_screen "exit code $(<"$dir/code"), not $1"
	[[ $(<"$dir/settings") == "$(<"$dir/after")" ]] || fail "the terminal's settings have changed"
	eventually has "ended with $1"
	[[ $(in_tmux display-message -p -t top '#{cursor_flag} #{alternate_on}') == "1 0" ]] ||
		fail "the cursor or the other screen is left"
	in_tmux kill-session -t top
}

# A value of another verb's JSON.
value()
{
	"$HUGEFUSE" "$1" --json "$dir/mnt" | python3 -c '
import json, sys
node = json.load(sys.stdin)
for key in sys.argv[1:]:
    node = node[int(key) if isinstance(node, list) else key]
print(node)' "${@:2}"
}

mib()
{
	echo "$(($1 / 1048576)) MiB"
}

# The row of the pool has the numbers of hugefuse stat --json, in the order of the heading.
has_pool()
{
	local total free reserved

	total=$(value stat mounts 0 pools 0 total_bytes)
	free=$(value stat mounts 0 pools 0 free_bytes)
	reserved=$(value stat mounts 0 pools 0 reserved_bytes)
	# the end of the mount point may be cut off
	screen | grep -E "^ *$(mib "$total") +$(mib $((total - free))) +$(mib "$free") +$(
		mib "$reserved") +[0-9.]+ +[0-9.]+ [um]?s +[0-9.]+ [um]?s .*${dir:0:8}" >/dev/null
}

# A screen of $1 columns and $2 rows: what has to be on any, and nothing that is wider.
expect_screen()
{
	local columns=$1 rows=$2

	eventually has "hugefuse top  "
	eventually has_pool
	eventually has "q quit  s sort"
	eventually has "RESIDENT  RESERVED"
	screen >"$dir/screen"
	(($(wc -l <"$dir/screen") == rows)) || show_screen "not $rows rows"
	! grep -E ".{$((columns + 1))}" "$dir/screen" || show_screen "wider than $columns"
	head -n 1 "$dir/screen" | grep -E \
		'^hugefuse top  [0-9]{2}:[0-9]{2}:[0-9]{2}  every 0.2 s  1 mount  by total *$' \
		>/dev/null || show_screen "the title"
	tail -n 1 "$dir/screen" | grep -q '^q quit' || show_screen "the last line"
	grep -Eq '^ *TOTAL +USED +FREE +RESERVED +FAULTS/S +P50 +P99 .*POOL' "$dir/screen" ||
		show_screen "the heading of pools"
	grep -Eq '^LOCK +MODE +WAITED/S +CONTENDED/S +ACQUIRED/S +LONGEST' "$dir/screen" ||
		show_screen "the heading of locks"
	grep -Eq '^[a-z_]+ +(exclusive|read|write) +[0-9.]+' "$dir/screen" ||
		show_screen "no lock"
	grep -Eq "^ +8 MiB +8 MiB .*map_in_steps \($client_pid\) +/data *$" "$dir/screen" ||
		show_screen "the holder"
	grep -Eq "^ +0 +16 MiB .*set aside for the mount *$" "$dir/screen" ||
		show_screen "what is set aside"
}

# ---- tests ----

test_80x24()
{
	start 80 24 screen -d 0.2
	expect_screen 80 24
	in_tmux send-keys -t top q
	expect_end 0
}

test_200x50()
{
	start 200 50 screen -d 0.2
	expect_screen 200 50
	# there is room for more columns, and more locks
	grep -Eq '^ *TOTAL .* P99 +MAX +POOL *$' "$dir/screen" || show_screen "no maximum"
	grep -Eq "^ *32 MiB .* $dir/mnt *\$" "$dir/screen" || show_screen "no whole mount point"
	(($(grep -cE '^[a-z_]+ +(exclusive|read|write) ' "$dir/screen") > 5)) ||
		show_screen "no more locks than on a small screen"
	in_tmux send-keys -t top q
	expect_end 0
}

test_keys()
{
	start 80 24 screen -d 0.2
	eventually has "set aside for the mount"
	in_tmux send-keys -t top s
	eventually has "by resident"
	in_tmux send-keys -t top r
	eventually has "by resident reversed"
	in_tmux send-keys -t top / d a t a
	eventually has "filter: data_"
	in_tmux send-keys -t top Enter
	eventually has "with data"
	eventually has_not "set aside for the mount"
	has "1 hidden by the filter" || show_screen "the filter"
	in_tmux send-keys -t top h
	eventually has "draw anew"
	has_not "RESIDENT" || show_screen "help"
	in_tmux send-keys -t top h
	eventually has "RESIDENT"
	in_tmux send-keys -t top / C-u Enter
	eventually has "set aside for the mount"
	in_tmux send-keys -t top C-c
	expect_end 0
}

is_wide()
{
	(($(screen | wc -l) == $2)) && has_pool && has "q quit" && has "RESIDENT" &&
		! screen | grep -E ".{$(($1 + 1))}" >/dev/null
}

fits()
{
	(($(screen | wc -l) == $2)) && screen | tail -n 1 | grep -q '^q quit' &&
		screen | head -n 1 | grep -q '^hugefuse top'
}

test_resize()
{
	start 80 24 screen -d 0.2
	eventually is_wide 80 24
	in_tmux resize-window -t top -x 200 -y 50
	eventually is_wide 200 50
	in_tmux resize-window -t top -x 40 -y 10
	eventually fits 40 10
	in_tmux resize-window -t top -x 20 -y 3
	eventually fits 20 3
	in_tmux resize-window -t top -x 80 -y 24
	eventually is_wide 80 24
	# nothing of the other sizes is left
	(($(screen | grep -c '^hugefuse top') == 1)) || show_screen "two titles"
	(($(screen | grep -c '^q quit') == 1)) || show_screen "two lines of keys"
	in_tmux send-keys -t top q
	expect_end 0
}

# Without colours and most else.
test_vt100()
{
	start 80 24 vt100 -d 0.2
	eventually has_pool
	eventually has "q quit"
	in_tmux send-keys -t top q
	eventually test -s "$dir/code"
	[[ $(<"$dir/settings") == "$(<"$dir/after")" ]] || fail "vt100: settings have changed"
	in_tmux kill-session -t top
}

# What cannot be drawn on is printed on.
test_dumb()
{
	local term

	for term in dumb no-such-terminal; do
		start 80 24 "$term" -d 0.2 -n 2
		eventually has "ended with 0"
		in_tmux capture-pane -p -S - -t top >"$dir/screen"
		grep -q "the terminal '$term' cannot be drawn on" "$dir/screen" ||
			show_screen "$term: no word of it"
		(($(grep -c '^hugefuse top  [0-9]' "$dir/screen") == 2)) || show_screen "$term"
		in_tmux kill-session -t top
	done
}

# Whatever ends it, the terminal is as it was.
test_signals()
{
	local signal pid

	for signal in TERM HUP QUIT SEGV ABRT; do
		start 80 24 screen -d 0.2
		eventually has "q quit"
		pid=$(pid_of_top)
		kill -"$signal" "$pid"
		expect_end $((128 + $(kill -l "$signal")))
	done
}

test_batch()
{
	"$HUGEFUSE" top -b -n 2 -d 0.2 "$dir/mnt" >"$dir/out"
	(($(grep -c '^hugefuse top' "$dir/out") == 2)) || fail "top -b -n 2: $(cat "$dir/out")"
	grep -Eq "^32 MiB +8 MiB +24 MiB +24 MiB +- " "$dir/out" ||
		fail "the first has no rate: $(cat "$dir/out")"
	grep -Eq "^32 MiB +8 MiB +24 MiB +24 MiB +0 " "$dir/out" ||
		fail "the second has a rate: $(cat "$dir/out")"
	! grep -q $'\e' "$dir/out" || fail "escapes in batch mode"
}

# The daemon dies while top runs.
test_daemon()
{
	local pid

	start 80 24 screen -d 0.2
	eventually has_pool
	pid=$(cat "$dir/pid")
	kill -KILL "$pid"
	eventually has "gone"
	in_tmux send-keys -t top q
	expect_end 0
}

take_down_tmux()
{
	local exit_code=$?

	in_tmux kill-server 2>/dev/null || true
	[[ -z ${client_pid-} ]] || kill -KILL "$client_pid" 2>/dev/null || true
	set +e
	(exit "$exit_code")
	take_down # which exits with that
}

require_root
command -v tmux >/dev/null || skip "needs tmux"
command -v python3 >/dev/null || skip "needs python3"
make_dir
trap take_down_tmux EXIT
mkdir "$dir/mnt"
before=$(machine_state)
setsid "$HUGEFUSE" mount -f -o backing=hugetlb,size=32M "$dir/mnt" >"$dir/log" 2>&1 &
echo $! >"$dir/pid"
wait_for_mount "$dir/mnt"
mkfifo "$dir/steps"
"$MAP_IN_STEPS" "$dir/mnt/data" 16384 <"$dir/steps" >"$dir/done" &
client_pid=$!
exec 9>"$dir/steps"
for step in mapped 'half touched'; do
	for ((i = 0; i < 500; i++)); do
		! grep -qx "$step" "$dir/done" || break
		sleep 0.02
	done
	[[ $step != mapped ]] || echo >&9
done
for test in 80x24 200x50 keys resize vt100 dumb signals batch daemon; do
	echo "$test"
	"test_$test"
done
exec 9>&-
wait "$client_pid" || true
client_pid=
"$HUGEFUSE" umount "$dir/mnt"
expect_state "$before" "top"
