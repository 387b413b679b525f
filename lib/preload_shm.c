/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload.h"

void preload_shm_unmapped(const char *addr, size_t length)
{
}
