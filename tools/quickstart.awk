# SPDX-License-Identifier: GPL-2.0-or-later
# The table of tools/quickstart from its samples: what, threads, seconds, contended, acquired and
# microseconds waited of the fault mutexes, and the same of the region rwsem.

function median(key, column,    n, i, j, v, values)
{
	n = count[key]
	for (i = 1; i <= n; i++) {
		v = sample[key, i, column]
		for (j = i - 1; j > 0 && values[j] > v; j--)
			values[j + 1] = values[j]
		values[j + 1] = v
	}
	return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2
}

function duration(us)
{
	if (us == 0)
		return "0"
	if (us < 1000)
		return sprintf("%.0f us", us)
	return us < 1e6 ? sprintf("%.1f ms", us / 1e3) : sprintf("%.2f s", us / 1e6)
}

function lock(key, column)
{
	return sprintf("  %9d %9d %9s", median(key, column), median(key, column + 1),
		       duration(median(key, column + 2)))
}

{
	key = $1 SUBSEP $2
	if (!(key in count))
		order[++nr_rows] = key
	count[key]++
	for (i = 3; i <= 9; i++)
		sample[key, count[key], i] = $i + 0
}

END {
	title["kernel"] = "(a) kernel hugetlbfs"
	title["single"] = "(b) hugefuse, fault_mutexes=1"
	title["table"] = "(c) hugefuse, default table"
	title["ahead"] = "(d) hugefuse, ahead=32M"
	printf "%-29s %7s %8s %6s  %-29s  %-29s\n", "", "", "", "to",
	       "--------- fault mutexes -----", "--------- region rwsem ------"
	printf "%-29s %7s %8s %6s  %9s %9s %9s  %9s %9s %9s\n", "", "threads", "seconds", "(a)",
	       "contended", "acquired", "waited", "contended", "acquired", "waited"
	for (i = 1; i <= nr_rows; i++) {
		split(order[i], part, SUBSEP)
		seconds = median(order[i], 3)
		if (part[1] == "kernel")
			base[part[2]] = seconds
		row[part[1], part[2]] = sprintf("%-29s %7d %8.4f %6.2f", title[part[1]], part[2],
			seconds, seconds / base[part[2]])
		if (part[1] == "kernel")
			row[part[1], part[2]] = row[part[1], part[2]] \
				"          -         -         -          -         -         -"
		else
			row[part[1], part[2]] = row[part[1], part[2]] lock(order[i], 4) \
				lock(order[i], 7)
		if (!(part[2] in seen)) {
			seen[part[2]] = 1
			threads[++nr_threads] = part[2]
		}
	}
	split("kernel single table ahead", names, " ")
	for (t = 1; t <= nr_threads; t++) {
		if (t > 1)
			print ""
		for (i = 1; i <= 4; i++)
			print row[names[i], threads[t]]
	}
}
