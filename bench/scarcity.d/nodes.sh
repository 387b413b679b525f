# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What fallback= chooses between: a huge page of another node, or small pages of this one. A part of
# bench/scarcity, which says what the functions are for.
#
# shellcheck disable=SC2154 # what bench/scarcity and tools/setup.sh set

nodes_read_ns=50 nodes_fault_ns=40000

describe_nodes()
{
	sides local-small local-huge remote-huge
	row access "a random read over 256 MiB" ns lower "" \
		"remote huge 13.9 % more than local small"
	row fault "first touch of 2 MB" us lower "" "remote huge 40 % more than local small"
	note "Remote memory is **simulated**: \`remote-huge\` is local memory in huge pages, with" \
		"${nodes_read_ns} ns waited after every read and ${nodes_fault_ns} ns after every huge" \
		"page that is touched first, in a plain process (\`bench/scarcity_nodes.c\`). What" \
		"address translation costs is real; whether it outweighs the distance depends on" \
		"the machine: give the program the distance that yours has."
}

measure_nodes()
{
	local round side size what penalty value

	for ((round = 0; round < nr_rounds; round++)); do
		for side in local-small local-huge remote-huge; do
			for what in access fault; do
				size=${side#*-} penalty=0
				[[ $side != remote-* ]] || penalty=$nodes_read_ns
				[[ $side$what != remote-*fault ]] || penalty=$nodes_fault_ns
				value=$("$build_dir/bench/scarcity_nodes" "$what" "$size" 256 "$penalty")
				sample nodes "$what" "$side" "$value"
			done
		done
	done
}
