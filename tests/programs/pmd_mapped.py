# SPDX-License-Identifier: GPL-2.0-or-later
"""How much of a file this process has mapped by huge page table entries."""
import re


def pmd_mapped_kb(path):
    with open("/proc/self/smaps", encoding="utf-8") as smaps:
        areas = re.split(r"^(?=[0-9a-f]+-)", smaps.read(), flags=re.M)
    return sum(int(kb) for area in areas if area.split("\n")[0].endswith(" " + path)
               for kb in re.findall(r"^(?:Shmem|File)PmdMapped: *(\d+)", area, flags=re.M))
