/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the hugetlb backing needs of the kernel. */
#pragma once

/* A userfaultfd that answers faults on pages which are not there with SIGBUS, or -1. */
int hugetlb_open_probe(void);
/* What this kernel lacks that the backing or its clients cannot do without, or NULL. */
const char *hugetlb_lacks(void);
