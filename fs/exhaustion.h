/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Exhaustion: what happens to faults for which there is no page. With on_exhausted=wait they
 * are kept until a page is freed or their time is up; with sigbus they are refused, and the
 * pages that were refused are watched again once something was freed.
 */
#pragma once

#include <stdbool.h>

#include "fs/fault_resolve.h"
#include "fs/mount.h"

struct exhaustion;

/* Starts a thread that sleeps until there is something to wait for. 0, -errno. */
int exhaustion_new(struct mount *mount, struct exhaustion **ret_exhaustion);
/* Refuses all that wait. */
void exhaustion_free(struct exhaustion *exhaustion);

/*
 * Keep @fault until a page is free, if the mount has it so; the fault is tried again on
 * @thread. false: it does not wait, or has waited long enough.
 */
bool exhaustion_wait(struct fault_thread *thread, const struct fault *fault);
/* A page of @mapping was refused: watch it again when a page was freed. */
void exhaustion_note_refused(struct exhaustion *exhaustion, struct mapping *mapping);
