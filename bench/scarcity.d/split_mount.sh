# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Holes in huge pages: punched at once, or noted. A part of bench/scarcity, which says what the
# functions are for.
#
# shellcheck disable=SC2154 # what bench/scarcity and tools/setup.sh set

describe_split_mount()
{
	sides off tenant-node
	row holes "64 kB holes punched and written again" "1/s" higher "gain>=1" ""
	row huge "of the file mapped huge by a reader after that" "%" higher "new>=100" ""
	row read "that reader: a random read" "ns" lower "gain>=1" ""
	note "A file of 512 MB on a mount of 600 MB, backing=thp, open for writing alone while it is" \
		"punched and written at random places (\`bench/scarcity_holes.c\`), and then mapped" \
		"by a reader."
}

# What the last process has closed may be in use for a moment.
unmount_holes()
{
	local i

	for ((i = 0; i < 50; i++)); do
		! mountpoint -q "$1" || "$build_dir/tools/hugefuse" umount "$1" 2>/dev/null || {
			sleep 0.1
			continue
		}
		return 0
	done
	return 1
}

measure_split_mount()
{
	local megabytes=512 seconds=4 round mode values dir=$work_dir/holes

	((!quick)) || seconds=0.5
	((!quick)) || megabytes=64
	mkdir -p "$dir"
	for ((round = 0; round < nr_rounds; round++)); do
		for mode in off tenant-node; do
			undo unmount_holes "$dir"
			"$build_dir/tools/hugefuse" mount \
				-o "backing=thp,size=$((megabytes + 88))M,split_queue=$mode" \
				"$dir" >/dev/null
			read -ra values < <("$build_dir/bench/scarcity_holes" "$dir/file" \
				"$megabytes" "$seconds")
			undo_to $((${#undo_list[@]} - 1))
			((${#values[@]} == 3)) || die "scarcity_holes failed with $mode"
			sample split_mount holes "$mode" "${values[0]}"
			sample split_mount huge "$mode" "${values[1]}"
			sample split_mount read "$mode" "${values[2]}"
		done
	done
}
