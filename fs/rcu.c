// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * RCU: the object that stands for it with ThreadSanitizer; else nothing.
 */
#include "fs/rcu.h"

#ifdef RCU_TSAN
char rcu_tsan_order;
#else
typedef int rcu_not_empty; /* ISO C wants a declaration */
#endif
