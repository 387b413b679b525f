/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Script: operations made from a seed, each with what the model says will come of it. The same
 * seed and sizes make the same script, whoever executes it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model.h"

struct step {
	struct op op;
	struct result result;
	struct counts counts; /* after it */
};

struct script {
	struct step *steps;
	size_t nr;
};

/* @nr operations on a mount of @max pages, of which @min are set aside. Ends with everything
 * unmapped and unlinked. */
void script_make(struct script *script, uint64_t seed, size_t nr, long max, long min);
void script_free(struct script *script);
/* One line: what the step does, and what is to come of it. */
void script_print(FILE *out, const struct script *script, size_t index);
const char *op_name(enum op_type type);
