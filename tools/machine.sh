# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sourced after tools/setup.sh by tools/quickstart and bench/run: the kernel's pool of 2 MB
# pages, a hugetlbfs and a hugefuse to compare, and one measurement on either. The user of this
# file sets build_dir, and has called make_work_dir.
#
# shellcheck disable=SC2154 # these two

pool_dir=/sys/kernel/mm/hugepages/hugepages-2048kB

# ---- the kernel's pool ----

pool_read()
{
	local value

	read -r value <"$pool_dir/$1"
	printf '%s\n' "$value"
}

# Memory that could be made pages, leaving 512 MB, and the pages that are free: in pages.
pages_to_be_had()
{
	local available

	available=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
	available=$(((available - 512) / 2))
	((available > 0)) || available=0
	printf '%s\n' $((available + $(pool_read free_hugepages) - $(pool_read resv_hugepages)))
}

# Have $1 free pages, or fewer where memory is short or in pieces: sets nr_pages.
grow_pool()
{
	local wanted=$1 before missing

	[[ -w $pool_dir/nr_hugepages ]] || die "the kernel has no pool of 2 MB pages here"
	before=$(pool_read nr_hugepages)
	missing=$((wanted - $(pool_read free_hugepages) + $(pool_read resv_hugepages)))
	if ((missing > 0)); then
		undo shrink_pool "$before"
		printf '%s\n' $((before + missing)) >"$pool_dir/nr_hugepages"
	fi
	nr_pages=$(($(pool_read free_hugepages) - $(pool_read resv_hugepages)))
	((nr_pages <= wanted)) || nr_pages=$wanted
}

shrink_pool()
{
	local now

	now=$(pool_read nr_hugepages)
	((now <= $1)) || printf '%s\n' "$1" >"$pool_dir/nr_hugepages"
}

# ---- a hugetlbfs ----

mount_kernel()
{
	kernel_dir=$work_dir/kernel
	mkdir "$kernel_dir"
	undo unmount_kernel
	mount -t hugetlbfs -o pagesize=2M hugetlbfs "$kernel_dir"
}

unmount_kernel()
{
	! mountpoint -q "$kernel_dir" || umount "$kernel_dir"
}

# ---- a hugefuse ----

# The daemon runs in the foreground of a session of its own: Ctrl-C does not reach it, and its
# end can be waited for.
mount_hugefuse()
{
	hugefuse_dir=$work_dir/hugefuse
	mkdir -p "$hugefuse_dir"
	hugefuse_pid=starting
	undo unmount_hugefuse
	[[ $1 == *backing=* ]] || set -- "backing=hugetlb,$1"
	setsid "$build_dir/tools/hugefuse" mount -f -o "$1" "$hugefuse_dir" \
		</dev/null >/dev/null &
	hugefuse_pid=$!
	until [[ -e $hugefuse_dir/.hugefuse/options ]]; do
		kill -0 "$hugefuse_pid" 2>/dev/null || die "hugefuse did not mount"
		sleep 0.02
	done
}

# SIGTERM makes the daemon unmount and give everything back, at whatever stage it is.
unmount_hugefuse()
{
	[[ -n $hugefuse_pid ]] || return 0
	[[ $hugefuse_pid != starting ]] || hugefuse_pid=${!-}
	kill -TERM "$hugefuse_pid" 2>/dev/null || true
	wait "$hugefuse_pid" || say "the daemon ended with $?"
	hugefuse_pid=
}

# ---- a measurement ----

# What the locks of class $1 counted: contentions, acquisitions, microseconds waited. An rwsem
# has a line each for its readers and its writers.
lock_counts()
{
	awk -v class="$1" '
		{ name = $1; sub(/:$/, "", name); sub(/-[RW]$/, "", name) }
		name == class { contended += $3; waited += $6; acquired += $9 }
		END { printf "%d\t%d\t%.2f\n", contended, acquired, waited }' \
		"$hugefuse_dir/.hugefuse/lock_stat"
}

# Seconds of parallel_fault on hugetlbfs with $1 threads; further arguments are its options.
fault_kernel()
{
	local nr_threads=$1

	shift
	"$build_dir/bench/parallel_fault" -m kernel -p "$kernel_dir" "$@" \
		"$nr_threads" $((nr_pages * 2048)) 2048 | tail -n 1
}

# The same on hugefuse.
fault_hugefuse()
{
	local nr_threads=$1

	shift
	"$build_dir/bench/parallel_fault" -m hugefuse -p "$hugefuse_dir" "$@" \
		"$nr_threads" $((nr_pages * 2048)) 2048 | tail -n 1
}

clear_lock_stat()
{
	printf '0\n' >"$hugefuse_dir/.hugefuse/lock_stat"
}

# ---- a program that maps a file, step by step ----

# Map file $1, $2 kB; then each next_step touches half of it, the rest, and unmaps.
start_steps()
{
	rm -f "$work_dir/in" "$work_dir/out"
	mkfifo "$work_dir/in" "$work_dir/out"
	steps_pid=starting
	undo stop_steps
	"$build_dir/bench/map_in_steps" "$1" "$2" <"$work_dir/in" >"$work_dir/out" &
	steps_pid=$!
	exec {steps_in}>"$work_dir/in" {steps_out}<"$work_dir/out"
	read -r -u "$steps_out"
}

next_step()
{
	printf '\n' >&"$steps_in"
	read -r -u "$steps_out"
}

stop_steps()
{
	[[ -n $steps_pid ]] || return 0
	[[ $steps_pid != starting ]] || steps_pid=${!-}
	kill -TERM "$steps_pid" 2>/dev/null || true
	wait "$steps_pid" 2>/dev/null || true
	steps_pid=
}
