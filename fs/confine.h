/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Confinement: a daemon of root's keeps only the capabilities and the system calls that it
 * needs, so that whoever gets hold of it by a message, a request or a file cannot do more with
 * it. docs/security.md says which those are. One of an ordinary user has no capabilities, and
 * needs fusermount3 to unmount: it stays as it is.
 *
 * What was built without libcap-ng or libseccomp, or with sanitizers, which make calls of their
 * own, does without.
 */
#pragma once

#include <stdbool.h>

/* What of it was built in. */
bool confine_has_capabilities(void);
bool confine_has_filter(void);
/*
 * Drop the capabilities that are not needed, also from the bounding set. Before there are other
 * threads: they have what this one has. 0 or -errno.
 */
int confine_capabilities(void);
/*
 * From now on a system call that is not needed fails with EPERM, in all threads. When
 * everything is mounted: mount(2) is one of them. 0 or -errno.
 */
int confine_system_calls(void);
/* Log, once each, what was refused since. Thread-safe. */
void confine_report(void);
