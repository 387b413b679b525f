/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Static probes (USDT) of the daemon, provider "hugefuse": docs/tracing.md has the table. A
 * probe that nobody is attached to is one no-operation; its arguments are what is at hand there
 * anyway. Without sys/sdt.h, or with -Dusdt=disabled, there is nothing.
 */
#pragma once

#if HF_USDT
#include <sys/sdt.h>

#define TRACE3(name, a, b, c)       STAP_PROBE3(hugefuse, name, a, b, c)
#define TRACE4(name, a, b, c, d)    STAP_PROBE4(hugefuse, name, a, b, c, d)
#define TRACE5(name, a, b, c, d, e) STAP_PROBE5(hugefuse, name, a, b, c, d, e)
#else
#define TRACE3(name, a, b, c)       ((void)0)
#define TRACE4(name, a, b, c, d)    ((void)0)
#define TRACE5(name, a, b, c, d, e) ((void)0)
#endif

/* A thread of a client waits for page @idx of mapping @mapping, at @address. */
#define trace_fault_begin(mapping, idx, address, kind) \
	TRACE4(fault_begin, mapping, idx, address, kind)
/* That is over: enum fault_outcome; the node of the page, or -1; since fault_begin. */
#define trace_fault_end(mapping, idx, outcome, node, latency_ns) \
	TRACE5(fault_end, mapping, idx, outcome, node, latency_ns)
/* A thread begins to wait for a lock of enum lock_rank, @shared: for reading; and has it. */
#define trace_lock_contended(lock, rank, shared) TRACE3(lock_contended, lock, rank, shared)
#define trace_lock_waited(lock, rank, shared)    TRACE3(lock_waited, lock, rank, shared)
/* A page is there: of file or mapping @object; enum page_outcome. */
#define trace_page_taken(object, idx, node, source) \
	TRACE4(page_taken, object, idx, node, source)
/* @nr pages from @idx on, or somewhere behind it, are not there any more. */
#define trace_page_freed(object, idx, nr, node) TRACE4(page_freed, object, idx, nr, node)
/* Pages [from, to) of a file of transparent huge pages came as base pages; @fd is the daemon's.
 */
#define trace_fallback(fd, from, to) TRACE3(fallback, fd, from, to)
