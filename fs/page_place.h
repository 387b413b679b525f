/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a page is to be taken: the rule of its space, what of its reservations is bound to
 * which node, and what is expected of the nodes. For page.c, page_reserve.c and page_move.c.
 */
#pragma once

#include "fs/page.h"

/* The attempts at one page, one node after the other. */
struct page_attempt {
	const struct page_hint *hint;
	uint64_t tried; /* nodes that had none */
	int last_tried; /* of them */
	int first;      /* the node that it was to be on; POOL_ANY_NODE: any */
	int failed_on;  /* the node of the last attempt; POOL_ANY_NODE: there was none */
	bool was_free;  /* it had been counted as free there */
	bool reserved;  /* its page is somewhere */
	bool strict;    /* not elsewhere than the rule says */
	bool anywhere;  /* the last attempt: let the kernel find one */
};

/* Where to take page @idx now. */
void page_place_locked(struct page_space *space, int64_t idx, struct page_attempt *attempt,
		       struct pool_place *ret_place);
/* After -ENOSPC: whether there is another node to try. */
bool page_try_again(struct page_space *space, struct page_attempt *attempt);

/* Bind @nr pages that were reserved as the rule has it. 0 or -ENOMEM with nothing changed. */
int page_bind_locked(struct page_space *space, int64_t nr);
/* Let @nr of what is bound be anywhere again, if there are so many. */
void page_unbind_locked(struct page_space *space, int64_t nr);
/* Reservations have gone: no more is bound than is left. */
void page_unbind_excess_locked(struct page_space *space);
/* A page of @node has become a reserved one: bind it, if the rule wants that and it can be. */
void page_rebind_locked(struct page_space *space, int node);
/* A bound page of @node was taken from the pool. */
void page_unbound_locked(struct page_space *space, int node);
