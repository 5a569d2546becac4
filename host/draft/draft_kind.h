/*
 * Kinds of drafters. Each is one file, which says what it is called and how it
 * is opened; a new one touches that file, its test and one row of DRAFT_KINDS.
 * How they go together is drafting.c's alone.
 */
#ifndef HOST_DRAFT_DRAFT_KIND_H
#define HOST_DRAFT_DRAFT_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct drafter;
struct drafting_options;
struct err;
struct history;
struct model;
struct opt_table;
struct opt_values;
struct session;
struct session_opts;

/* What a drafter is opened for and with; all of it outlives the drafter. */
struct draft_site {
	const struct drafting_options *options;
	const struct opt_values *values; /* those of all tables */
	const char *word;         /* behind the kind's name, if it has one */
	const struct model *file; /* of a kind that reads one, and where */
	const char *path;         /* it lies */
	const struct model *target;
	struct session *session;                 /* the target's */
	const struct session_opts *session_opts; /* of that */
	uint32_t rows;                           /* of a tree, at most */
	/* What was answered before; NULL: nothing is kept. It changes between
	 * texts and never within one, and then its ids lie elsewhere: who takes
	 * it in at the begin of a text asks history_after for what is new. */
	const struct history *history;
	const int32_t *text; /* [n], of a kind that is told */
	size_t n;
	/* One of the kind, for another text, which outlives this and what of it
	 * is of no text may be shared. NULL: there is none. */
	const struct drafter *like;
};

struct draft_kind {
	/* What asks for it: "echo" alone or, with a colon at its end, followed
	 * by a word: "oracle:". NULL: the path of a draft model's file, or
	 * nothing at all. */
	const char *name;
	const char *shown;   /* in help, "oracle:P"; NULL: the name */
	const char *summary; /* one line, for people */
	bool on_device;      /* of kinds with a file: what --draft-on says */
	/* It must be told the text, prompt and continuation, beforehand: what
	 * it is good for is simulated. */
	bool told;
	const char *title; /* in reports; NULL: the path of the file */
	const struct opt_table *options; /* its own; NULL: none */
	/* Tokens that it drafts one behind the other at most. NULL: as many as
	 * it is asked for. */
	uint32_t (*length)(const struct opt_values *);
	/* -EINVAL for a word that cannot be meant; `said` is the name and the
	 * word. NULL: any can. */
	int (*check)(const char *said, const char *word, struct err *);
	int (*open)(
		struct drafter *out, const struct draft_site *, struct err *);
};

/* By name; NULL-terminated. */
extern const struct draft_kind *const draft_kinds[];

/* A row a kind, in the order of help. */
#define DRAFT_KINDS(row)                                                   \
	row(host) row(device) row(oracle) row(pld) row(sam) row(ngram_map) \
		row(ngram_mod) row(calibrated) row(reuse) row(suffix)      \
			row(rest) row(rest_file) row(recycle)

#define DRAFT_KIND_DECLARED(kind) \
	extern const struct draft_kind draft_kind_##kind;
DRAFT_KINDS(DRAFT_KIND_DECLARED)

/*
 * The kind that `said` begins with by name, NULL: none does; *len is then the
 * length of what asks for it, up to a "+" or the end.
 */
const struct draft_kind *draft_kind_named(const char *said, size_t *len);

/* The kind for a draft model's file. */
const struct draft_kind *draft_kind_of_file(bool on_device);

#endif
