/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reader: a process that reads every file in .hugefuse as fast as it can, and checks what can
 * be checked of each text by itself: whole lines, as many fields as the heading has, numbers
 * that can be, sums that add up, ranges that are disjoint, counters that do not go back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct reader {
	pid_t pid;               /* 0: none */
	_Atomic uint64_t *reads; /* shared; how many texts it has read */
};

/* Start it on the mount at @dir, stopped. */
void reader_start(struct reader *reader, const char *dir);
/* Let it run, or stop it; fails the test if it has found something. */
void reader_run(struct reader *reader);
void reader_pause(struct reader *reader);
/* End it; returns how many texts it has read, and fails the test if it has found something. */
uint64_t reader_stop(struct reader *reader);
