/*
 * Drafters one behind the other: a node's candidates are those of the first of
 * them that has any. So what answers seldom but well goes before what always
 * knows something, and what has a small context before what has a large one.
 *
 * Each has a tree of its own that grows as it is asked, so none needs to know
 * of the others; one that is not asked in a cycle works nothing in it.
 */
#ifndef HOST_DRAFT_DRAFTER_FIRST_H
#define HOST_DRAFT_DRAFTER_FIRST_H

struct drafter;
struct err;

/* They are borrowed, part[n] too. out->batch is that of the first. */
int drafter_first_open(struct drafter *out, const struct drafter *part,
	unsigned n, struct err *);

#endif
