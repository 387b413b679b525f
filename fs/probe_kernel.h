/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The part of probe that asks the kernel by trying. */
#pragma once

#include "fs/probe.h"

/* What userfaultfd this user gets, and its features. */
void probe_userfaultfd(struct probe *probe);
/* What FUSE offers, and whether tmpfs has huge pages, in namespaces of a child's own. */
void probe_mounts(struct probe *probe);
