/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What follows from a probe: how each way of mapping fares here, and what to change.
 */
#pragma once

#include "fs/probe.h"

enum way_state {
	WAY_AVAILABLE,
	WAY_LIMITED,
	WAY_UNAVAILABLE,
	WAY_UNKNOWN
};

struct way {
	const char *name;
	enum way_state state;
	char why[256];
};

struct remedy {
	const char *missing;
	const char *command;
};

#define PROBE_NR_WAYS      4 /* passthrough, direct, cached, run */
#define PROBE_MAX_REMEDIES 20

const char *way_state_name(enum way_state state);
void probe_ways(const struct probe *probe, struct way ret_ways[PROBE_NR_WAYS]);
/* Returns how many there are. */
int probe_remedies(const struct probe *probe, struct remedy ret_remedies[PROBE_MAX_REMEDIES]);

/* The features of userfaultfd that matter here, in a table that ends with no name. */
struct uffd_feature {
	const char *name;
	uint64_t bits;
};
extern const struct uffd_feature uffd_features[];
