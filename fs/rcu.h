/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RCU (liburcu-bp: threads need not register) in a way that ThreadSanitizer understands. It
 * does not see into the library, so that it has to be told that what a reader did is before
 * the end of a grace period, and what was written before publishing is before a reader.
 * Otherwise these are liburcu's own functions.
 */
#pragma once

#include <urcu-bp.h>

#if defined(__SANITIZE_THREAD__)
#define RCU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RCU_TSAN 1
#endif
#endif

#ifdef RCU_TSAN
#include <sanitizer/tsan_interface.h>

extern char rcu_tsan_order; /* all of RCU is one object to TSan */

/* What this thread did up to here is before every later rcu_order_after(). */
static inline void rcu_order_before(void)
{
	__tsan_release(&rcu_tsan_order);
}

static inline void rcu_order_after(void)
{
	__tsan_acquire(&rcu_tsan_order);
}
#else
static inline void rcu_order_before(void)
{
}

static inline void rcu_order_after(void)
{
}
#endif

static inline void rcu_reader_lock(void)
{
	rcu_read_lock();
	rcu_order_after();
}

static inline void rcu_reader_unlock(void)
{
	rcu_order_before();
	rcu_read_unlock();
}

/* Wait until all readers of now have ended. Not inside a read side. */
static inline void rcu_wait_for_readers(void)
{
	rcu_order_before();
	synchronize_rcu();
	rcu_order_after();
}

/* Call @callback after that; it begins with rcu_order_after(). */
static inline void rcu_call_later(struct rcu_head *head, void (*callback)(struct rcu_head *))
{
	rcu_order_before();
	call_rcu(head, callback);
}
