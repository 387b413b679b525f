#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# cp, dd, rsync and Python's mmap on files of odd sizes, and fio and stress-ng, which check what
# they have written.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
source "$(dirname "$0")/lib.sh"

sizes=(0 1 4095 4096 4097 70001 2097151 2097152 2097153 9000001)

make_files()
{
	local size

	mkdir "$dir/files"
	for size in "${sizes[@]}"; do
		head -c "$size" /dev/urandom >"$dir/files/$size"
	done
	(cd "$dir/files" && sha256sum -- *) >"$dir/sums"
}

check_files()
{
	(cd "$1" && sha256sum --quiet -c "$dir/sums") || fail "$2"
}

test_copies()
{
	local size

	cp -r "$dir/files" "$dir/mnt/cp"
	check_files "$dir/mnt/cp" cp
	cp --sparse=always -r "$dir/mnt/cp" "$dir/mnt/sparse"
	check_files "$dir/mnt/sparse" "cp --sparse"
	mkdir "$dir/mnt/dd"
	for size in "${sizes[@]}"; do
		dd if="$dir/files/$size" of="$dir/mnt/dd/$size" bs=12345 status=none
	done
	check_files "$dir/mnt/dd" dd
	rsync -a "$dir/files/" "$dir/mnt/rsync"
	check_files "$dir/mnt/rsync" rsync
	rsync -a --inplace --append-verify "$dir/mnt/cp/" "$dir/mnt/rsync"
	check_files "$dir/mnt/rsync" "rsync --inplace"
	rm -r "$dir"/mnt/{cp,sparse,dd,rsync}
}

test_python()
{
	PYTHONPATH=$(dirname "$0") python3 -B - "$dir/mnt/python" <<'END'
import mmap, os, sys
from pmd_mapped import pmd_mapped_kb
size = (5 << 20) + 123
with open(sys.argv[1], "w+b") as file:
    file.truncate(size)
    with mmap.mmap(file.fileno(), size) as memory:
        memory[size - 3:size] = b"end"
        memory[3 << 20:(3 << 20) + 4] = b"here"
        memory.flush()
        assert memory[0] == 0
        assert pmd_mapped_kb(sys.argv[1]) == 4096, pmd_mapped_kb(sys.argv[1])
    assert os.pread(file.fileno(), 3, size - 3) == b"end"
    file.seek(3 << 20)
    assert file.read(4) == b"here"
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        memory[0:4] = b"copy"
    assert os.pread(file.fileno(), 4, 0) == bytes(4)
os.unlink(sys.argv[1])
END
}

test_fio()
{
	local engine

	for engine in psync mmap; do
		fio --name="$engine" --directory="$dir/mnt" --ioengine="$engine" --rw=randrw \
			--bs=4k-64k --size=32M --numjobs=2 --verify=crc32c --do_verify=1 \
			--fallocate=posix --unlink=1 --verify_state_save=0 >"$dir/out" 2>&1 ||
			fail "fio $engine: $(tail "$dir/out")"
	done
}

run_stressor()
{
	stress-ng --"$1" 2 "${@:2}" --verify --timeout 3 --temp-path "$dir/mnt" \
		>"$dir/out" 2>&1 || fail "stress-ng $1: $(tail "$dir/out")"
}

test_stress()
{
	run_stressor mmap --mmap-bytes 16M --mmap-file
	run_stressor fallocate --fallocate-bytes 16M
	run_stressor hdd --hdd-bytes 16M
	run_stressor rename
}

require_root
need_packages rsync fio stress-ng python3
make_dir
trap take_down EXIT
mkdir "$dir/mnt"
make_files
before=$(machine_state)
"$HUGEFUSE" mount -o backing=thp,size=256M "$dir/mnt"
test_copies
test_python
test_fio
test_stress
expect_no_fallback
[[ $(ls -A "$dir/mnt") == '' ]] || fail "left behind: $(ls -A "$dir/mnt")"
"$HUGEFUSE" umount "$dir/mnt"
# There files are read and written, and mapped by the library only.
"$HUGEFUSE" mount -o backing=hugetlb,size=192M "$dir/mnt"
test_copies
"$HUGEFUSE" umount "$dir/mnt"
expect_state "$before" "the end"
