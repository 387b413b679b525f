/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Backing of a private mapping: its pages are anonymous huge pages in the client's own memory,
 * which UFFDIO_COPY puts there, and which /proc/PID/pagemap shows. Pages that the kernel copied
 * on write are there too, without the daemon having been asked; page_reconcile() finds them.
 */
#pragma once

struct mapping;

/* Set up mapping->private_file. */
void private_backing_init(struct mapping *mapping);
