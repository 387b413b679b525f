#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# bench/plot draws each picture, as SVG and PNG, of figures that were made up; says which it cannot
# draw; and refuses what is no output of bench/run.
set -euo pipefail
plot=$(dirname "$0")/../../bench/plot

fail()
{
	echo "FAILED: $*" >&2
	exit 1
}

command -v gnuplot >/dev/null || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 - "$dir" <<'END'
import json, pathlib, sys
waited = {"wait_seconds": 0.5}
idle = {"wait_seconds": 0}
figures = {
    "schema": 1, "cpus": 2,
    "contention": [{"threads": t, "fault_mutexes": m, "pages": 512, "clear_us": 80,
                    "seconds": 0.04 / min(t, m), "mutexes": waited, "region_write": idle,
                    "region_read": idle} for m in (1, 2, 256) for t in (1, 4, 64)],
    "kernel_threads": {"1": 0.04, "2": 0.02, "64": 0.02},
    "latency_ns": {"it's \"1\" thread": {"p50": 80000, "p99": 90000, "max": 1000000}},
    "region_map_cost": {"results": [
        {"regions": n, "add_middle": 100, "add_random": 200, "delete_random": 150,
         "count_random": 90} for n in (10, 1000, 1000000)]},
}
directory = pathlib.Path(sys.argv[1])
(directory / "all.json").write_text(json.dumps(figures))
del figures["contention"]
(directory / "some.json").write_text(json.dumps(figures))
(directory / "other.json").write_text("[]")
END
"$plot" --output "$dir/all" "$dir/all.json" 2>"$dir/err" || fail "$(<"$dir/err")"
[[ ! -s $dir/err ]] || fail "it had something to say: $(<"$dir/err")"
for name in threads waits latency fragments; do
	python3 -c 'import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
curves = [e for e in root.iter() if e.tag.endswith(("}path", "}polygon"))]
sys.exit(not root.tag.endswith("}svg") or not curves)' "$dir/all/$name.svg" || fail "$name.svg"
	[[ $(head -c 8 "$dir/all/$name.png" | od -An -tx1 | tr -d ' ') == 89504e470d0a1a0a ]] ||
		fail "$name.png"
done
for text in '1 mutex<' '256 mutexes' 'hugetlbfs, 78 us, 2 CPUs'; do
	grep -qF "$text" "$dir/all/threads.svg" || fail "no '$text' in threads.svg"
done
grep -qF "it's " "$dir/all/latency.svg" || fail "a title with a quote"
"$plot" --output "$dir/some" "$dir/some.json" 2>"$dir/err"
grep -q 'no threads: .* has no contention' "$dir/err" || fail "missing: $(<"$dir/err")"
[[ -s $dir/some/latency.svg && ! -e $dir/some/threads.svg ]] || fail "the pictures of some figures"
for file in other.json none.json; do
	! "$plot" --output "$dir/bad" "$dir/$file" 2>"$dir/err" || fail "$file was taken"
	(($(wc -l <"$dir/err") == 1)) || fail "$file: $(<"$dir/err")"
done
