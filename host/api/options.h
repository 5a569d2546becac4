/*
 * All that can be asked of a decoder: the pair that it runs on, the method, and
 * what that and its drafting take, each with its default and its help in one
 * table, that of the part concerned. A struct opt_values holds what is asked;
 * all zero it asks for nothing, which is what the defaults say. A command shows
 * PAIR_OPTIONS and DECODING_OPTIONS of such values among its rows; whoever has
 * no command line sets them by opt_set(decoder_table, ...). Text is borrowed.
 */
#ifndef HOST_API_OPTIONS_H
#define HOST_API_OPTIONS_H

#include "base/opt.h"
#include "host/api/tandem.h"
#include "host/draft/drafting_options.h"
#include "host/method/samples_options.h"
#include "host/session/session_opts.h"

struct err;
struct method;
struct soc;

/* ---- the pair ------------------------------------------------------------ */

enum flash_io { FLASH_DIRECT, FLASH_BUFFERED, FLASH_THREAD };

struct pair_options {
	struct session_opts session; /* but for what stands below */
	double device_timeout;       /* seconds */
	uint32_t restarts;
	const char *dram_budget; /* NULL: all */
	int flash_io;            /* enum flash_io */
	const char *clock;       /* NULL: wall */
	int as;      /* index into shapes that passes are priced as; -1 */
	int as_type; /* index into those of matrices; -1 */
};
extern const struct opt_table pair_table;

/* "f32", "f16-kv16", "f16", "int8", "npu", NULL: in the wire's order. */
extern const char *const precision_names[];

/* "wall", then "soc:NAME" of each phone that comes with the program, NULL. */
extern const char *const clock_names[];

/*
 * *opts as these options ask. The phone that --clock names, if any, goes to
 * *soc, which *opts borrows. -errno where it has no profile, -EINVAL for what
 * cannot be meant.
 */
int pair_apply(const struct opt_values *, struct session_opts *opts,
	struct soc *soc, struct err *);

/* ---- decoding ------------------------------------------------------------ */

struct decoding_options {
	const char *method;
	const char *history; /* NULL: none */
	uint64_t history_max;
	bool history_frozen;
	int profile; /* enum profile_use */
};
extern const struct opt_table decoding_table;

/* ---- several texts ------------------------------------------------------- */

/* Of the library's handles and of what serves others: a command that writes one
 * text and ends has no use for it, and does not show it. */
struct texts_options {
	uint32_t texts; /* at a time */
	uint32_t keep;  /* that have ended */
	uint32_t slots; /* of the cache for all; 0: as many as they need */
};
extern const struct opt_table texts_table;

/* A method, for those who choose one. */
struct method_facts {
	const char *name;
	const struct method *method;
	bool lossless;  /* the text is that of plain decoding */
	bool drafts;    /* it must */
	bool diffusion; /* it fills masks */
	bool many;      /* it generates samples of which one is chosen */
	bool scores;    /* by a reward, step by step */
};
/* The i-th, in the order of help; false behind the last. */
bool method_facts(size_t i, struct method_facts *);
/* Whether the options of a table mean something to that method. */
bool method_takes(const char *name, const struct opt_table *);

/* The names of methods, for an option that takes some of them. */
bool method_name_word(size_t i, struct opt_word *);

/* The tables of a decoder, each an opt_tables: of the pair; of the method,
 * drafting and all methods; of all of it. */
const struct opt_table *pair_tables(size_t i);
const struct opt_table *decoding_tables(size_t i);
const struct opt_table *decoder_tables(size_t i);
/* Of several texts; of those and a decoder. */
const struct opt_table *texts_tables(size_t i);
const struct opt_table *library_tables(size_t i);

/* ---- a handle ------------------------------------------------------------ */

/*
 * The two halves of tandem_open, for commands that parse options themselves.
 * tandem_create checks the options and opens nothing; `parsed`, where it is not
 * NULL, is used in place of options.set and must outlive the handle, and
 * options.model is ignored. It returns -errno and, on failure, no handle.
 * tandem_read_model opens the model (NULL: the one that comes with Tandem).
 */
int tandem_create(struct tandem **out, const struct tandem_options *,
	const struct opt_values *parsed, struct err *);
int tandem_read_model(struct tandem *, const char *path);

/* 0, or -EFBIG with what to try: room in the context for such a prompt and a
 * token more, of the model that is read; predict as in tandem_start_for. */
int tandem_check_room(
	const struct tandem *, uint64_t prompt, int64_t predict, struct err *);

/* How the pair is to be started, which may be changed until it is. */
struct session_opts *tandem_pair(struct tandem *);

/* -EINVAL, and a sentence, for options that have no effect with what drafts or,
 * unless there are `answers` to compare texts with, on the reward. */
int tandem_check_needless(const struct tandem *, bool answers, struct err *);

/* tandem_start for prompts of at most so many tokens, to which texts add
 * `predict` at most (-1: not known): samples of a prompt get no more room. */
int tandem_start_for(struct tandem *, uint64_t prompt, int64_t predict);

/* tandem_close, which returns -errno. */
int tandem_end(struct tandem *, struct err *);

/* Rows of a command's table, for a struct opt_values of its own. */
#define PAIR_OPTIONS(values)                                          \
	{                                                             \
		OPT_TABLES, .value = &(values), .tables = pair_tables \
	}
#define DECODING_OPTIONS(values)                                          \
	{                                                                 \
		OPT_TABLES, .value = &(values), .tables = decoding_tables \
	}
#define TEXTS_OPTIONS(values)                                          \
	{                                                              \
		OPT_TABLES, .value = &(values), .tables = texts_tables \
	}

#endif
