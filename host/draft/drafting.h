/*
 * The drafter of a decoder: one of the kinds of host/draft/draft_kind.h, or
 * several joined by "+" in --draft, which draft together
 * (host/draft/drafter_join.h). The user's options choose the drafter; only
 * decoding methods that draft have one. Not thread-safe.
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

/* A function of the type opt_tables: lists drafting_table and then the option
 * table of every kind, each table once. */
const struct opt_table *drafting_tables(size_t i);

#define DRAFT_PARTS 6

/* One of the drafters that "+" separates in --draft. */
struct draft_part {
	const struct draft_kind *kind;
	/* NAME, NAME:ARGUMENT or a path; "" for the bundled draft model */
	char word[PATH_MAX];
	/* path of the draft model's file; "" for other kinds */
	char path[PATH_MAX];
	struct model *file;
};

struct drafting {
	struct drafting_options opts;
	const struct opt_values *values;
	struct draft_part part[DRAFT_PARTS];
	unsigned n;
	/* each[i].begin is NULL while drafter i is closed */
	struct drafter each[DRAFT_PARTS];
	/* all drafters of `each`, joined into one; drafter.begin is NULL while
	 * they are closed */
	struct drafter drafter;
	/* path of the first draft model's file; "" without draft model */
	char path[PATH_MAX];
	/* History of earlier requests, or NULL. The caller sets it before it
	 * calls drafting_open. */
	const struct history *history;
	char name[PATH_MAX];    /* names of the drafters, for reports */
	struct draft_site site; /* arguments of the kinds' open functions */
};

/* Parse --draft; `values` is borrowed. Returns 0, or -EINVAL for a word that
 * cannot be parsed. */
int drafting_ask(struct drafting *, const struct opt_values *, struct err *);

/* Return an error if the user gave an option of a drafter kind that --draft
 * does not select. Only options with a `noun` (a description of their value,
 * for messages) are checked. Returns 0 or -EINVAL. */
int drafting_check_needless(const struct drafting *, struct err *);

/* Whether one of the drafters is a draft model. */
bool drafting_has_model(const struct drafting *);

/* The shape (model dimensions, host/model/shapes.h) from which the draft
 * model's cost is computed; NULL for the draft model's own shape. */
const struct shape *drafting_as(const struct drafting_options *);

/* Open the files of the draft models that --draft names; the drafters remain
 * closed. Returns 0, -EINVAL if a draft model's vocabulary differs from the
 * target's vocabulary, or another negative errno. */
int drafting_open_file(struct drafting *, const struct model *target,
	const char *target_path, struct err *);

/* Open the drafters for the target's session; session_opts are the session's
 * options. Trees have up to `rows` rows. Drafters with needs_text
 * (draft_kind.h) are left closed. Returns 0 or a negative errno. */
int drafting_open(struct drafting *, struct session *target,
	const struct session_opts *, uint32_t rows, struct err *);

/* Length of the longest chain that any of the drafters drafts; 0 means no
 * limit. */
uint32_t drafting_length(const struct drafting *);

/* Whether a drafter must be given the prompt and its continuation before it
 * opens. */
bool drafting_needs_text(const struct drafting *);

/* Open the drafters with needs_text. text[n] is the prompt and its
 * continuation. Returns 0 or a negative errno. */
int drafting_open_with_text(
	struct drafting *, const int32_t *text, size_t n, struct err *);

/*
 * A further set of the same drafters, for one more request with its own token
 * sequence; allowed only if drafting_can_be_many returns true. Call
 * drafting_open_more after drafting_open. Call drafters_close before
 * drafting_close, even if drafting_open_more failed.
 */
struct drafters {
	struct drafter each[DRAFT_PARTS];
	unsigned n;
	struct drafter all;
};
int drafting_open_more(struct drafting *, struct drafters *, struct err *);
void drafters_close(struct drafters *);

/* Whether a drafter reads the target's predictions for the prompt. */
bool drafting_reads_prompt(const struct drafting *);

/* Largest number of predictions (likeliest next tokens) that one of the
 * drafters reads after each row, see draft_kind.h; 0 if no drafter reads
 * predictions. */
uint32_t drafting_predictions(const struct drafting *);

/* Whether drafting_open_more is possible: no drafter has needs_text or
 * reads_prompt. */
bool drafting_can_be_many(const struct drafting *);

/* Closes everything that is open. Call it before closing the target's
 * session. */
void drafting_close(struct drafting *);

#endif
