/*
 * Who drafts for a decoder: one of the kinds of host/draft/draft_kind.h, or
 * several with "+" between, which draft together (host/draft/drafter_join.h).
 * Opened by what the user asked for, for methods that have a use for it. One
 * thread.
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

/* That one and those of all kinds, each once: an opt_tables. */
const struct opt_table *drafting_tables(size_t i);

#define DRAFT_PARTS 6

/* One of the drafters that were asked for, with "+" between. */
struct draft_part {
	const struct draft_kind *kind;
	char said[PATH_MAX]; /* NAME, NAME:WORD or a path; "": "model" */
	char path[PATH_MAX]; /* of its draft model; "" without one */
	struct model *file;
};

struct drafting {
	struct drafting_options opts;
	const struct opt_values *values;
	struct draft_part part[DRAFT_PARTS];
	unsigned n;
	struct drafter each[DRAFT_PARTS]; /* begin NULL: not open */
	struct drafter drafter;           /* of all; begin NULL: not open */
	char path[PATH_MAX]; /* of the first draft model; "" without one */
	const struct history *history; /* for them, before they open; or NULL */
	char name[PATH_MAX];           /* who drafts, for reports */
	struct draft_site site;        /* what they are opened for */
};

/* What is to draft; the values are borrowed. -EINVAL for what cannot be meant.
 */
int drafting_ask(struct drafting *, const struct opt_values *, struct err *);

/* -EINVAL if an option was said that names a thing (its noun) of a kind that is
 * none of the drafters. */
int drafting_check_needless(const struct drafting *, struct err *);

/* Whether one of the drafters is a draft model. */
bool drafting_has_model(const struct drafting *);

/* What the draft model is priced as; NULL: as itself. */
const struct shape *drafting_as(const struct drafting_options *);

/* Nothing but the draft model's file is opened, if there is one. -EINVAL when
 * its vocabulary is not the target's. */
int drafting_open_file(struct drafting *, const struct model *target,
	const char *target_path, struct err *);

/* Beside the target's session, whose options these were; trees have at most
 * `rows` rows. */
int drafting_open(struct drafting *, struct session *target,
	const struct session_opts *, uint32_t rows, struct err *);

/* Tokens that all of them draft one behind the other at most; 0: as many as
 * they are asked for. */
uint32_t drafting_length(const struct drafting *);

/* One of them must be told the text before it can draft. */
bool drafting_is_told(const struct drafting *);

/* The text, prompt and continuation, for those that must be told; only then the
 * drafter is open. */
int drafting_report(
	struct drafting *, const int32_t *text, size_t n, struct err *);

/*
 * The same drafters anew, for one more text that is written beside others: they
 * are told of that alone. Not of those that must be told a text, nor of a draft
 * model on the device, which holds one. Behind drafting_open; closed before
 * drafting_close, and whatever this returns.
 */
struct drafters {
	struct drafter each[DRAFT_PARTS];
	unsigned n;
	struct drafter all;
};
int drafting_open_more(struct drafting *, struct drafters *, struct err *);
void drafters_close(struct drafters *);

/* Whether there may be more of them. */
bool drafting_can_be_many(const struct drafting *);

/* Whatever is open; before the target's session. */
void drafting_close(struct drafting *);

#endif
