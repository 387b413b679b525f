/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Clients of a daemon that died: they have run on with the kernel serving their faults. What
 * they have mapped, and what is reserved for it, is made again from the journal and from
 * /proc/PID/maps. They may connect again, and attach what they have mapped with userfaultfds.
 */
#pragma once

#include "fs/control.h"

/* What fs/adopt.c has found for @mount, if anything; all of it is done with then. 0 or -errno.
 */
int adopt_clients(struct mount *mount, struct control *control);
/* Look whether an adopted client has unmapped something: nobody tells. The control thread. */
void adopt_look_after(struct client *client);
