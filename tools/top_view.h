/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Top view: draws a model, line by line, into a window of ncurses or, without one, to a stream.
 */
#pragma once

#include <stdio.h>

#include <curses.h>

#include "tools/top_model.h"

/* What is on the screen beside the model, and what keys do to it. */
struct top_state {
	struct top_settings settings;
	size_t scroll; /* holders above the first that is shown */
	bool help;
	bool editing;               /* of the filter */
	char edit[TOP_FILTER_SIZE]; /* what was typed */
	char clock[16];             /* "12:34:56" */
	double delay;               /* seconds */
};

enum top_action {
	TOP_NOTHING, /* but perhaps to be drawn again */
	TOP_BUILD,   /* the settings have changed */
	TOP_SAMPLE,  /* read anew */
	TOP_REDRAW,  /* the terminal may be garbled */
	TOP_QUIT,
};

/* A key as of getch(). Pure. */
enum top_action top_state_key(struct top_state *state, int key);

struct top_canvas {
	WINDOW *window; /* NULL: @file */
	FILE *file;
	int rows;    /* 0: there is no limit */
	int columns; /* 0: there is no limit */
};

/* 0 or -ENOMEM. A window is erased before, and has to be refreshed after. */
int top_view_draw(const struct top_model *model, const struct top_state *state,
		  const struct top_canvas *canvas);
