#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# SQLite with its database on a mount of transparent huge pages, in WAL mode, mapped: two writers at
# a time, both killed, and the database is whole and has what they had committed.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
source "$(dirname "$0")/lib.sh"

# A writer: rows of its own number, each committed, and written down after that.
# exec: what is killed is the writer itself
writer()
{
	exec python3 - "$1" "$dir/mnt/db" "$dir/committed.$1" <<'END'
import sqlite3, sys
number, path, committed = int(sys.argv[1]), sys.argv[2], open(sys.argv[3], "w", buffering=1)
db = sqlite3.connect(path, timeout=60, isolation_level=None)
db.execute("PRAGMA journal_mode=WAL")
db.execute("PRAGMA mmap_size=%d" % (64 << 20))
db.execute("PRAGMA synchronous=NORMAL")
i = 0
while True:
    db.execute("BEGIN IMMEDIATE")
    for _ in range(20):
        db.execute("INSERT INTO rows VALUES (?, ?, ?)", (number, i, b"%d" % (i * 7919) * 100))
        i += 1
    db.execute("COMMIT")
    print(i, file=committed)
END
}

check()
{
	PYTHONPATH=$(dirname "$0") python3 -B - "$dir/mnt/db" "$dir/committed.1" "$dir/committed.2" <<'END'
import sqlite3, sys
from pmd_mapped import pmd_mapped_kb
db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA mmap_size=%d" % (64 << 20))
assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
assert pmd_mapped_kb(sys.argv[1]) >= 8192, pmd_mapped_kb(sys.argv[1])
for number in (1, 2):
    told = int(open(sys.argv[number + 1]).read().split()[-1])
    rows = db.execute("SELECT i, data FROM rows WHERE number = ? ORDER BY i",
                      (number,)).fetchall()
    assert len(rows) >= told > 0, (number, len(rows), told)
    assert all(row == (i, b"%d" % (i * 7919) * 100) for i, row in enumerate(rows)), number
    print("writer %d: %d rows, all as written" % (number, len(rows)))
END
}

has_written()
{
	[[ -s $dir/committed.1 && -s $dir/committed.2 ]] &&
		(($(wc -l <"$dir/committed.1") > 20 && $(wc -l <"$dir/committed.2") > 20))
}

kill_writers()
{
	local pid

	for pid in "${writers[@]}"; do
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	writers=()
}

take_down_writers()
{
	local exit_code=$?

	set +e
	kill_writers
	(exit "$exit_code")
	take_down
}

require_root
need_packages python3
make_dir
writers=()
trap take_down_writers EXIT
mkdir "$dir/mnt"
before=$(machine_state)
"$HUGEFUSE" mount -o backing=thp,size=256M "$dir/mnt"
python3 -c "
import sqlite3
db = sqlite3.connect('$dir/mnt/db')
db.execute('CREATE TABLE rows (number INTEGER, i INTEGER, data BLOB)')
db.executemany('INSERT INTO rows VALUES (0, ?, zeroblob(65536))', ((i,) for i in range(160)))
db.commit()"
for round in 1 2 3; do
	rm -f "$dir"/committed.*
	python3 -c "
import sqlite3
db = sqlite3.connect('$dir/mnt/db')
db.execute('DELETE FROM rows WHERE number > 0')
db.commit()"
	for number in 1 2; do
		writer "$number" &
		writers+=("$!")
	done
	wait_for 60 has_written || fail "the writers do not get on"
	kill_writers
	check || fail "round $round"
done
expect_no_fallback
rm -f "$dir"/mnt/db*
"$HUGEFUSE" umount "$dir/mnt"
expect_state "$before" "the end"
