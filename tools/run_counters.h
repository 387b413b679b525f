/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse run --counters: a private mount namespace in which the kernel's files about huge
 * pages are those of a mount.
 */
#pragma once

#include "tools/cmd.h"

/*
 * Enter one, and bind the mount's counters over the kernel's. EXIT_OK, or the exit code after
 * one line on stderr.
 */
int run_counters(const struct verb *verb, const char *mountpoint);
