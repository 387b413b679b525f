/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The screen of hugefuse top: a title, pools, the hottest locks and the biggest holders, each a
 * table that is fitted to the width, and a line of keys. Holders get the rows that are left.
 * Bold and reverse are all the attributes there are, so it is the same without colours.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/escape.h"
#include "tools/output.h"
#include "tools/top_view.h"

#define MAX_LOCKS 5 /* on a small screen */

enum style {
	STYLE_PLAIN,
	STYLE_TITLE,
	STYLE_HEADING,
};

struct drawing {
	const struct top_canvas *canvas;
	int row;
	int end;     /* the first row that may not be drawn; 0: there is none */
	size_t skip; /* rows of a table that are scrolled away */
};

static bool is_full(const struct drawing *drawing)
{
	return drawing->end != 0 && drawing->row >= drawing->end;
}

/* How many bytes of @text take at most @columns columns. */
static int fitting(const char *text, int columns)
{
	int length = 0, count = 0;

	for (; text[length] != '\0'; length++) {
		if (((unsigned char)text[length] & 0xc0) != 0x80 && count++ == columns)
			break;
	}
	return length;
}

static void draw_line(struct drawing *drawing, enum style style, const char *text)
{
	static const attr_t attributes[] = {A_NORMAL, A_BOLD, A_REVERSE};
	const struct top_canvas *canvas = drawing->canvas;
	int length = canvas->columns ? fitting(text, canvas->columns) : (int)strlen(text);

	if (is_full(drawing))
		return;
	if (canvas->window) {
		wattrset(canvas->window, (int)attributes[style]);
		mvwaddnstr(canvas->window, drawing->row, 0, text, length);
		/* a heading goes from edge to edge */
		for (int i = getcurx(canvas->window);
		     style == STYLE_HEADING && getcury(canvas->window) == drawing->row &&
		     i < canvas->columns;
		     i++)
			waddch(canvas->window, ' ');
		wattrset(canvas->window, (int)A_NORMAL);
	} else {
		fprintf(canvas->file, "%.*s\n", length, text);
	}
	drawing->row++;
}

static void draw_row(void *data, bool heading, const char *text)
{
	struct drawing *drawing = data;

	if (!heading && drawing->skip > 0)
		drawing->skip--;
	else
		draw_line(drawing, heading ? STYLE_HEADING : STYLE_PLAIN, text);
}

/* Frees the table. */
static int draw_table(struct drawing *drawing, struct table *table)
{
	int r = table_give(table, (unsigned int)drawing->canvas->columns,
			   &(struct table_sink){draw_row, drawing});

	table_deinit(table);
	return r;
}

/* ---- cells ---- */

static void add_bytes(struct table *table, uint64_t bytes)
{
	table_add(table, bytes == SNAPSHOT_UNKNOWN ? "-" : quantity_bytes(bytes).text);
}

static void add_rate(struct table *table, double rate)
{
	char text[32];

	if (rate < 0)
		snprintf(text, sizeof(text), "-");
	else if (rate != 0 && rate < 10)
		snprintf(text, sizeof(text), "%.1f", rate);
	else
		snprintf(text, sizeof(text), "%.0f", rate);
	table_add(table, text);
}

static void add_microseconds(struct table *table, double microseconds)
{
	table_add(table, microseconds < 0 ? "-" : quantity_microseconds(microseconds).text);
}

static void add_latency(struct table *table, uint64_t nanoseconds)
{
	add_microseconds(table, nanoseconds == SNAPSHOT_UNKNOWN ? TOP_UNKNOWN
								: (double)nanoseconds / 1000);
}

/* ---- tables ---- */

static void add_pool(struct table *table, const struct top_pool *pool)
{
	if (pool->error) {
		table_add(table, "gone");
		for (int i = 2; i < table->nr_columns; i++)
			table_add(table, "");
		table_add(table, pool->name);
		return;
	}
	add_bytes(table, pool->total);
	add_bytes(table, pool->used);
	add_bytes(table, pool->free);
	add_bytes(table, pool->reserved);
	if (pool->kind == TOP_POOL_MOUNT) {
		add_rate(table, pool->faults_per_s);
		add_latency(table, pool->p50);
		add_latency(table, pool->p99);
		add_latency(table, pool->max);
	} else {
		for (int i = 5; i < table->nr_columns; i++)
			table_add(table, "");
	}
	table_add(table, pool->name);
}

/* Nodes only where there are several, or room for everything. */
static int draw_pools(struct drawing *drawing, const struct top_model *model)
{
	static const struct table_column columns[] = {
		{.title = "TOTAL"},
		{.title = "USED"},
		{.title = "FREE"},
		{.title = "RESERVED"},
		{.title = "FAULTS/S"},
		{.title = "P50"},
		{.title = "P99"},
		{.title = "MAX", .optional = true},
		{.title = "POOL", .left = true},
	};
	bool room = drawing->end == 0 || (int)model->nr_pools <= drawing->end / 4;
	struct table table;

	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < model->nr_pools; i++) {
		if (room || model->pools[i].kind == TOP_POOL_MOUNT)
			add_pool(&table, &model->pools[i]);
	}
	return draw_table(drawing, &table);
}

static int draw_locks(struct drawing *drawing, const struct top_model *model)
{
	static const struct table_column columns[] = {
		{.title = "LOCK", .left = true},
		{.title = "MODE", .left = true},
		{.title = "WAITED/S"},
		{.title = "CONTENDED/S"},
		{.title = "ACQUIRED/S"},
		{.title = "LONGEST"},
		{.title = "MOUNT", .left = true, .optional = true},
	};
	int nr_columns = (int)(sizeof(columns) / sizeof(columns[0]));
	size_t nr = model->nr_locks;
	struct table table;

	if (nr == 0)
		return 0;
	if (drawing->end != 0 && nr > (size_t)drawing->end / 5)
		nr = drawing->end / 5 > MAX_LOCKS ? (size_t)drawing->end / 5 : MAX_LOCKS;
	if (nr > model->nr_locks)
		nr = model->nr_locks;
	draw_line(drawing, STYLE_PLAIN, "");
	table_init(&table, columns, model->nr_mounts > 1 ? nr_columns : nr_columns - 1);
	for (size_t i = 0; i < nr; i++) {
		const struct top_lock *lock = &model->locks[i];

		table_add(&table, lock->name);
		table_add(&table, lock->mode);
		add_microseconds(&table, lock->waited_us_per_s);
		add_rate(&table, lock->contentions_per_s);
		add_rate(&table, lock->acquisitions_per_s);
		add_microseconds(&table, lock->wait_max);
		if (model->nr_mounts > 1)
			table_add(&table, lock->mountpoint);
	}
	return draw_table(drawing, &table);
}

static int draw_holders(struct drawing *drawing, const struct top_model *model,
			const struct top_state *state)
{
	static const struct table_column columns[] = {
		{.title = "RESIDENT"},
		{.title = "RESERVED"},
		{.title = "SINCE", .optional = true},
		{.title = "MAPPED BY", .left = true},
		{.title = "MOUNT", .left = true, .optional = true},
		{.title = "HOLDER", .left = true},
	};
	static const struct table_column columns_of_one[] = {
		{.title = "RESIDENT"},
		{.title = "RESERVED"},
		{.title = "SINCE", .optional = true},
		{.title = "MAPPED BY", .left = true},
		{.title = "HOLDER", .left = true},
	};
	struct table table;
	char line[96];
	int r;

	draw_line(drawing, STYLE_PLAIN, "");
	if (model->nr_mounts > 1)
		table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	else
		table_init(&table, columns_of_one,
			   sizeof(columns_of_one) / sizeof(columns_of_one[0]));
	for (size_t i = 0; i < model->nr_holders; i++) {
		const struct top_holder *holder = &model->holders[i];

		add_bytes(&table, holder->resident);
		add_bytes(&table, holder->reserved);
		table_add(&table, holder->seconds == SNAPSHOT_UNKNOWN || !holder->reserved
					  ? ""
					  : quantity_seconds((double)holder->seconds).text);
		table_add(&table, holder->mappers);
		if (model->nr_mounts > 1)
			table_add(&table, holder->mountpoint);
		table_add(&table, holder->name);
	}
	drawing->skip = state->scroll < model->nr_holders ? state->scroll : 0;
	r = draw_table(drawing, &table);
	drawing->skip = 0;
	if (!model->holders_known)
		draw_line(drawing, STYLE_PLAIN, "who holds what is for root to see");
	if (model->nr_hidden) {
		snprintf(line, sizeof(line), "%zu hidden by the filter", model->nr_hidden);
		draw_line(drawing, STYLE_PLAIN, line);
	}
	return r;
}

/* ---- the rest ---- */

static void draw_title(struct drawing *drawing, const struct top_model *model,
		       const struct top_state *state)
{
	const struct top_settings *settings = &state->settings;
	char line[256];

	snprintf(line, sizeof(line), "hugefuse top  %s  every %g s  %zu mount%s  by %s%s%s%s",
		 state->clock, state->delay, model->nr_mounts, model->nr_mounts == 1 ? "" : "s",
		 top_sort_name(settings->sort), settings->reverse ? " reversed" : "",
		 settings->filter[0] ? "  with " : "", settings->filter);
	draw_line(drawing, STYLE_TITLE, line);
}

static void draw_help(struct drawing *drawing)
{
	static const char *const lines[] = {
		"",
		"q            quit",
		"s            sort holders by the next key: total, resident, reserved, name",
		"t m v n      sort by total, resident, reserved, name",
		"r            the other way round",
		"/            show only holders with a word in them; Enter takes it, Esc leaves it",
		"up down      scroll holders; Page Up, Page Down and Home as well",
		"space        read anew, now",
		"Ctrl-L       draw anew",
		"h ?          this page, and back",
		"",
		"FAULTS/S     faults that the daemon answered, a second",
		"P50 P99 MAX  their latency since the counters were cleared",
		"WAITED/S     how long all threads together waited for a lock, a second",
		"RESERVED     promised, but not touched yet; SINCE: for how long",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		draw_line(drawing, STYLE_PLAIN, lines[i]);
}

static void draw_keys(const struct top_canvas *canvas, const struct top_state *state)
{
	struct drawing last = {.canvas = canvas, .row = canvas->rows - 1, .end = canvas->rows};
	char line[128];

	if (!canvas->window || canvas->rows < 2)
		return;
	if (state->editing)
		snprintf(line, sizeof(line), "filter: %s_", state->edit);
	else
		snprintf(line, sizeof(line), "q quit  s sort  r reverse  / filter  h help");
	draw_line(&last, STYLE_TITLE, line);
}

int top_view_draw(const struct top_model *model, const struct top_state *state,
		  const struct top_canvas *canvas)
{
	/* the last row is that of the keys */
	struct drawing drawing = {.canvas = canvas,
				  .end = canvas->rows > 1 ? canvas->rows - 1 : canvas->rows};
	int r = 0;

	if (canvas->window)
		werase(canvas->window);
	draw_title(&drawing, model, state);
	if (state->help) {
		draw_help(&drawing);
	} else {
		r = draw_pools(&drawing, model);
		if (r == 0)
			r = draw_locks(&drawing, model);
		if (r == 0)
			r = draw_holders(&drawing, model, state);
	}
	draw_keys(canvas, state);
	return r;
}

/* ---- keys ---- */

#define KEY_ESCAPE  27
#define KEY_CTRL(c) ((c)&0x1f)

static enum top_action edit_key(struct top_state *state, int key)
{
	size_t length = strlen(state->edit);

	switch (key) {
	case '\n':
	case '\r':
	case KEY_ENTER:
		strcpy(state->settings.filter, state->edit);
		state->scroll = 0;
		state->editing = false;
		return TOP_BUILD;
	case KEY_ESCAPE:
		state->editing = false;
		return TOP_NOTHING;
	case KEY_BACKSPACE:
	case KEY_CTRL('h'):
	case 127:
		while (length > 0 && ((unsigned char)state->edit[length - 1] & 0xc0) == 0x80)
			length--;
		state->edit[length > 0 ? length - 1 : 0] = '\0';
		return TOP_NOTHING;
	case KEY_CTRL('u'):
		state->edit[0] = '\0';
		return TOP_NOTHING;
	default:
		if (key >= ' ' && key < 256 && key != 127 && length + 1 < TOP_FILTER_SIZE) {
			state->edit[length] = (char)key;
			state->edit[length + 1] = '\0';
		}
		return TOP_NOTHING;
	}
}

static enum top_action sort_by(struct top_state *state, enum top_sort sort)
{
	state->settings.sort = sort;
	state->scroll = 0;
	return TOP_BUILD;
}

static enum top_action scroll_by(struct top_state *state, long rows)
{
	if (rows < 0 && state->scroll < (size_t)-rows)
		state->scroll = 0;
	else
		state->scroll += (size_t)rows;
	return TOP_NOTHING;
}

enum top_action top_state_key(struct top_state *state, int key)
{
	if (state->editing)
		return edit_key(state, key);
	switch (key) {
	case 'q':
	case 'Q':
		return TOP_QUIT;
	case 'h':
	case '?':
		state->help = !state->help;
		return TOP_NOTHING;
	case KEY_ESCAPE:
		state->help = false;
		return TOP_NOTHING;
	case 's':
		return sort_by(state, (state->settings.sort + 1) % TOP_NR_SORTS);
	case 't':
		return sort_by(state, TOP_SORT_TOTAL);
	case 'm':
		return sort_by(state, TOP_SORT_RESIDENT);
	case 'v':
		return sort_by(state, TOP_SORT_RESERVED);
	case 'n':
		return sort_by(state, TOP_SORT_NAME);
	case 'r':
		state->settings.reverse = !state->settings.reverse;
		return TOP_BUILD;
	case '/':
		strcpy(state->edit, state->settings.filter);
		state->editing = true;
		return TOP_NOTHING;
	case KEY_DOWN:
		return scroll_by(state, 1);
	case KEY_UP:
		return scroll_by(state, -1);
	case KEY_NPAGE:
		return scroll_by(state, 10);
	case KEY_PPAGE:
		return scroll_by(state, -10);
	case KEY_HOME:
		state->scroll = 0;
		return TOP_NOTHING;
	case ' ':
		return TOP_SAMPLE;
	case KEY_CTRL('l'):
		return TOP_REDRAW;
	default:
		return TOP_NOTHING;
	}
}
