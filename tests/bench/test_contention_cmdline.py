#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The command lines of bench/contention and bench/database_start: what is refused is one line that
names it, with exit code 2; the last line is the elapsed seconds; --json is an object that adds up.

usage: test_contention_cmdline.py CONTENTION DATABASE_START
"""
import json
import subprocess
import sys

REFUSED = [
    ["--threads", "0"], ["--threads", "-1"], ["--threads", "4097"], ["--threads", "two"],
    ["--threads"], ["--threads", "2x"], ["--pages", "0"], ["--pages", "1048577"],
    ["--page-size", "3M"], ["--page-size", "2048"], ["--page-size", "32G"],
    ["--page-size", "2MB"], ["--clear-us", "-5"], ["--clear-us", "60000001"],
    ["--fault-mutexes", "0"], ["--fault-mutexes", "1048577"], ["--fault-mutexes", "many"],
    ["--hash", "md5"], ["--hash", ""], ["--region-lock", "none"], ["--same-page", "101"],
    ["--same-page", "-1"], ["--same-page", "nan"], ["--same-page", "5%"], ["--files", "0"],
    ["--files", "2000", "--pages", "1999"], ["--seed", "x"], ["--private=yes"], ["--json=1"],
    ["--nothing"], ["-x"], ["17"], ["--threads", "2", "3"],
]
REFUSED_DATABASE = [
    [], ["1"] * 5, ["1"] * 7, ["0", "1", "1", "1", "1", "1"], ["1", "1", "x", "1", "1", "1"],
]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def check_refused(program, arguments):
    done = run(program, *arguments)
    where = f"{program} {arguments}: {done}"
    assert done.returncode == 2, where
    assert done.stdout == "", where
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), where
    if arguments and arguments[0].startswith("--"):
        name = "--files" if arguments[0] == "--files" else arguments[-1] if len(
            arguments) == 3 else arguments[0]
        assert name.split("=")[0] in done.stderr, where


def check_text(contention):
    done = run(contention, "--threads", "3", "--pages", "90", "--clear-us", "10")
    assert done.returncode == 0 and done.stderr == "", done
    lines = done.stdout.splitlines()
    elapsed = next(line for line in lines if line.startswith("elapsed")).split()[1]
    assert float(lines[-1]) == float(elapsed), done
    for word in ("over one thread", "closest possible", "contentions", "acquisitions",
                 "waited", "the busiest one"):
        assert word in done.stdout, done


def check_json(contention):
    done = run(contention, "--threads", "4", "--pages", "400", "--page-size", "16M",
               "--clear-us", "20", "--fault-mutexes", "100", "--hash", "low-bits",
               "--region-lock", "global", "--private", "--same-page", "50", "--files", "3",
               "--reserved", "--seed", "7", "--json")
    assert done.returncode == 0 and done.stderr == "", done
    result = json.loads(done.stdout)
    options = {"schema": 1, "bench": "contention", "threads": 4, "pages": 400,
               "page_size": 16 << 20, "clear_us": 20, "fault_mutexes": 128,
               "hash": "low-bits", "region_lock": "global", "private": True, "same_page": 50,
               "files": 3, "reserved": True, "seed": 7}
    for name, value in options.items():
        assert result[name] == value, (name, result)
    assert result["faults"] == 1000 and result["present"] == 600, result
    assert result["from_reservation"] == 400, result
    assert result["from_free"] == result["from_surplus"] == 0, result
    assert result["best_seconds"] == 0.002 and result["best_speedup"] == 4, result
    assert abs(result["speedup"] - result["one_thread_seconds"] / result["seconds"]) < (
        0.01 * result["speedup"]), result
    assert result["mutexes"]["acquisitions"] in (1000, 0), result  # 0: without lock_stat
    assert result["mutexes"]["contentions"] <= result["mutexes"]["acquisitions"], result


def check_database(database_start):
    done = run(database_start, "5", "40", "10", "10", "10", "1")
    assert done.returncode == 0 and done.stderr == "", done
    result = json.loads(done.stdout)
    assert result["bench"] == "database_start", result
    assert result["faults"] == 200 and result["from_reservation"] == 40, result
    assert result["fault_mutexes"] == 1, result


def main():
    contention, database_start = sys.argv[1:]
    for arguments in REFUSED:
        check_refused(contention, arguments)
    for arguments in REFUSED_DATABASE:
        check_refused(database_start, arguments)
    check_text(contention)
    check_json(contention)
    check_database(database_start)
    assert run(contention, "--help").stdout.startswith("usage: "), "no usage"


if __name__ == "__main__":
    main()
