/*
 * The drafter of a decoder: one of the kinds of host/draft/draft_kind.h, or
 * several joined by "+", which draft together (host/draft/drafter_join.h). It
 * is opened by the options of the user, for methods that draft. One thread.
 */
#ifndef HOST_DRAFT_DRAFTING_H
#define HOST_DRAFT_DRAFTING_H

#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/drafting_options.h"
#include "host/tree/drafter.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct history;
struct model;
struct session;
struct session_opts;
struct shape;

/* drafting_table and the option tables of all kinds, each once: an opt_tables
 * function. */
const struct opt_table *drafting_tables(size_t i);

#define DRAFT_PARTS 6

/* One of the drafters of --draft, which "+" separates. */
struct draft_part {
	const struct draft_kind *kind;
	char word[PATH_MAX]; /* NAME, NAME:WORD or a path; "": "model" */
	char path[PATH_MAX]; /* of its draft model; "" without one */
	struct model *file;
};

struct drafting {
	struct drafting_options opts;
	const struct opt_values *values;
	struct draft_part part[DRAFT_PARTS];
	unsigned n;
	struct drafter each[DRAFT_PARTS]; /* begin NULL: not open */
	struct drafter drafter; /* all together; begin NULL: not open */
	char path[PATH_MAX];    /* of the first draft model; "" without one */
	const struct history *history; /* set before opening; NULL: none */
	char name[PATH_MAX];           /* names of the drafters, for reports */
	struct draft_site site;        /* arguments of each open function */
};

/* Parse --draft; `values` is borrowed. -EINVAL for a word that cannot be
 * parsed. */
int drafting_ask(struct drafting *, const struct opt_values *, struct err *);

/* -EINVAL if an option was given that names a file or the like (it has a
 * `noun`) for a kind that is none of the drafters. */
int drafting_check_needless(const struct drafting *, struct err *);

/* Whether one of the drafters is a draft model. */
bool drafting_has_model(const struct drafting *);

/* The shape whose cost a draft model is charged; NULL: its own. */
const struct shape *drafting_as(const struct drafting_options *);

/* Open the draft models' files, if any, and nothing else. -EINVAL if a
 * vocabulary is not the target's. */
int drafting_open_file(struct drafting *, const struct model *target,
	const char *target_path, struct err *);

/* Open the drafters for the target's session, which has these options; trees
 * have at most `rows` rows. Drafters that need the text stay closed. */
int drafting_open(struct drafting *, struct session *target,
	const struct session_opts *, uint32_t rows, struct err *);

/* Length of the longest chain that any of them drafts; 0: no limit. */
uint32_t drafting_length(const struct drafting *);

/* Whether a drafter needs the text, prompt and continuation, before it
 * opens. */
bool drafting_needs_text(const struct drafting *);

/* Open the drafters that need the text, prompt and continuation. */
int drafting_open_with_text(
	struct drafting *, const int32_t *text, size_t n, struct err *);

/*
 * The same drafters for one more request, with a text of its own. Not for
 * drafters that need the text, nor for a draft model on the device, which holds
 * one text. Call after drafting_open; close before drafting_close, whatever
 * drafting_open_more returns.
 */
struct drafters {
	struct drafter each[DRAFT_PARTS];
	unsigned n;
	struct drafter all;
};
int drafting_open_more(struct drafting *, struct drafters *, struct err *);
void drafters_close(struct drafters *);

/* Whether drafting_open_more is possible. */
bool drafting_can_be_many(const struct drafting *);

/* Closes whatever is open; call before closing the target's session. */
void drafting_close(struct drafting *);

#endif
