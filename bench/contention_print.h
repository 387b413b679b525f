/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Printing what a run of bench/contention has measured. */
#pragma once

#include "bench/contention_run.h"

/* For people; the last line is the elapsed seconds. */
void contention_print_text(const struct contention_config *config,
			   const struct contention_result *result);
/* One object, whose member "bench" is @bench. */
void contention_print_json(const char *bench, const struct contention_config *config,
			   const struct contention_result *result);
