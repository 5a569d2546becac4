/*
 * Kinds of drafters. Each kind is one file, which defines its name and its open
 * function; a new kind touches that file, its test and one row of DRAFT_KINDS.
 * drafting.c alone combines several drafters.
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

/* Arguments of a drafter's open function. Everything pointed to outlives the
 * drafter. */
struct draft_site {
	const struct drafting_options *options;
	const struct opt_values *values; /* the values of all option tables */
	/* text after the kind's name, such as P of oracle:P */
	const char *word;
	/* opened draft model file, for kinds that read one */
	const struct model *file;
	const char *path; /* and its path */
	const struct model *target;
	struct session *session;                 /* the target's session */
	const struct session_opts *session_opts; /* options of that session */
	uint32_t rows;                           /* of a tree, at most */
	/* Earlier prompts and answers; NULL: no history is kept. The history
	 * changes only between texts, and a change may move its ids, so a
	 * drafter calls history_after for new records at the beginning of a
	 * text. */
	const struct history *history;
	/* [n] prompt and continuation, for kinds with needs_text */
	const int32_t *text;
	size_t n;
	/* An open drafter of the same kind that serves another request and
	 * outlives this one, so that what does not depend on the text can be
	 * shared; or NULL. */
	const struct drafter *like;
};

struct draft_kind {
	/* The name in --draft: "echo" alone or, with a colon at its end, a
	 * prefix that a word follows: "oracle:". NULL: chosen by the path of a
	 * draft model's file, or by an empty --draft. */
	const char *name;
	const char *shown;   /* in help, "oracle:P"; NULL: the name */
	const char *summary; /* one line, for people */
	bool on_device;      /* of kinds with a file: matches --draft-on */
	/* The drafter needs the whole text, prompt and continuation, before it
	 * opens: it simulates a draft's quality. */
	bool needs_text;
	const char *title; /* in reports; NULL: the path of the file */
	const struct opt_table *options; /* its own; NULL: none */
	/* Longest chain of tokens that it drafts. NULL: no limit of its own. */
	uint32_t (*length)(const struct opt_values *);
	/* Check the word; `said` is name and word, for messages. -EINVAL. NULL:
	 * every word is valid. */
	int (*check)(const char *said, const char *word, struct err *);
	int (*open)(
		struct drafter *out, const struct draft_site *, struct err *);
};

/* Indexed in the order of DRAFT_KINDS; NULL-terminated. */
extern const struct draft_kind *const draft_kinds[];

/* One row per kind, in the order of help. */
#define DRAFT_KINDS(row)                                                   \
	row(host) row(device) row(oracle) row(pld) row(sam) row(ngram_map) \
		row(ngram_mod) row(calibrated) row(reuse) row(suffix)      \
			row(rest) row(rest_file) row(recycle)

#define DRAFT_KIND_DECLARED(kind) \
	extern const struct draft_kind draft_kind_##kind;
DRAFT_KINDS(DRAFT_KIND_DECLARED)

/*
 * The kind whose name `said` begins with, or NULL; *len is then the length of
 * name and word, up to a "+" or the end.
 */
const struct draft_kind *draft_kind_named(const char *said, size_t *len);

/* The kind for a draft model's file. */
const struct draft_kind *draft_kind_of_file(bool on_device);

#endif
