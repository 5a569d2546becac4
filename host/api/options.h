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
#include "host/session/session.h"

struct err;
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
