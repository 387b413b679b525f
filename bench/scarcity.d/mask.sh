# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Faults while a node has no huge page, with every fault trying for itself and with the
# availability mask. A part of bench/scarcity, which says what the functions are for.
#
# shellcheck disable=SC2154 # what bench/scarcity and tools/setup.sh set

mask_period_ms=100 mask_populate_us=100 mask_fail_us=2000

describe_mask()
{
	sides off on
	row p50 "a fault, median (simulated costs)" us lower "" ""
	row p99 "a fault, 99th percentile (simulated costs)" us lower "gain>=5" ""
	row failed "attempts in vain per 1000 faults" "" lower "" ""
	row period "attempts in vain per \`alloc_sleep_ms\`" "" lower "new<=1" ""
	note "Two threads on node 0, which has no huge page, and node 1, which has. It is the" \
		"daemon's own page transaction and mask, in one process, over a backing without" \
		"memory (\`bench/scarcity_mask.c\`): nodes are numbers on any machine, and **what an" \
		"attempt costs is simulated**, by sleeping ${mask_populate_us} us for a page and" \
		"${mask_fail_us} us for none. In every \`alloc_sleep_ms\`, ${mask_period_ms} here, memory" \
		"for one page comes back on node 0. On a real kernel with several nodes" \
		"\`tests/vm/test_scarce.c\` counts the attempts: one for each page without the mask," \
		"one in all with it."
}

measure_mask()
{
	local seconds=4 round side values

	((!quick)) || seconds=1
	for ((round = 0; round < nr_rounds; round++)); do
		for side in off on; do
			read -ra values < <("$build_dir/bench/scarcity_mask" "$side" 2 "$seconds" \
				"$mask_period_ms" "$mask_populate_us" "$mask_fail_us")
			((${#values[@]} == 4)) || die "scarcity_mask: $side failed"
			sample mask p50 "$side" "${values[0]}"
			sample mask p99 "$side" "${values[1]}"
			sample mask failed "$side" "${values[2]}"
			sample mask period "$side" "${values[3]}"
		done
	done
}
