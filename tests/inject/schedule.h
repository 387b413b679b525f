/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Schedule: when which call of the program under test fails. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "inject.h"

#define INJECT_FAILING (INJECT_ALLOC | INJECT_SYSCALL | INJECT_MESSAGE)
#define INJECT_ALL     (INJECT_FAILING | INJECT_LOCK)

/* Make the shared memory and set $HUGEFUSE_INJECT. Once, before the program is started. */
void schedule_init(void);
/* From now on let the @nth call of @kinds fail, or stall for @stall_ms if that is not 0. */
void schedule_arm(uint32_t kinds, int64_t nth, uint32_t stall_ms);
/* Let all calls do what they do; returns whether one failed or stalled. */
bool schedule_disarm(void);
/* How many have, since it was armed. */
unsigned int schedule_nr_fired(void);
/* What did: "malloc at +0x1234", in a static buffer. */
const char *schedule_what(void);
