# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Queues of huge pages to be split: one for all, one for each tenant, one for each tenant and node.
# A part of bench/scarcity, which says what the functions are for.
#
# shellcheck disable=SC2154 # what bench/scarcity and tools/setup.sh set

split_modes=(global tenant tenant-node)

describe_split()
{
	local nodes

	sides "${split_modes[@]}"
	for nodes in 2 4; do
		row "ops_$nodes" "$nodes nodes (simulated): punch and refill, 8 tenants" "1/s" \
			higher "" "tenant -19.6 %, tenant-node +4 %, against one for each node"
		row "contentions_$nodes" "$nodes nodes: contentions in a million operations" "" \
			lower "" ""
		row "elsewhere_$nodes" \
			"$nodes nodes: of 100 pages split, on nodes that were not short" "" \
			lower "new<=0" "0"
	done
	note "Eight threads, each with a file of 16 huge pages, which are on the nodes in turn, and" \
		"eight holes of a base page that come and go; and a shrinker, as memory of node 0" \
		"is short all the time. The nodes are simulated, on any machine: it is the daemon's" \
		"own code over a backing without memory (\`bench/scarcity_split.c\`), so there is" \
		"no other cost in it than that of locks. The published figures are of Linux with" \
		"memory cgroups."
}

measure_split()
{
	local seconds=4 round nodes mode values

	((!quick)) || seconds=0.5
	for ((round = 0; round < nr_rounds; round++)); do
		for nodes in 2 4; do
			for mode in "${split_modes[@]}"; do
				read -ra values < <("$build_dir/bench/scarcity_split" "$mode" \
					"$nodes" 8 "$seconds")
				((${#values[@]} == 4)) || die "scarcity_split: $mode failed"
				sample split "ops_$nodes" "$mode" "${values[0]}"
				sample split "contentions_$nodes" "$mode" "${values[1]}"
				sample split "elsewhere_$nodes" "$mode" "$(awk -v all="${values[2]}" \
					-v elsewhere="${values[3]}" \
					'BEGIN { print all ? 100 * elsewhere / all : 0 }')"
			done
		done
	done
}
