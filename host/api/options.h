/*
 * The options of a decoder: for the pair, the method, and the method's parts.
 * Each part has one table with its options, their defaults and help. A struct
 * opt_values holds the values that were set; all zero means all defaults. A
 * command includes PAIR_OPTIONS and DECODING_OPTIONS of its values in its own
 * table; the library sets values by opt_set(decoder_tables, ...). Strings are
 * borrowed.
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
	struct session_opts session; /* values that need no conversion */
	double device_timeout;       /* seconds */
	uint32_t restarts;
	const char *dram_budget; /* NULL: all weights in memory */
	int flash_io;            /* enum flash_io */
	const char *clock;       /* NULL: wall */
	int as;                  /* index into shapes[]; -1: not set */
	int as_type;             /* index of a type of matrices; -1: not set */
};
extern const struct opt_table pair_table;

/* "f32", "f16-kv16", "f16", "int8", "npu", NULL: by enum wire_precision. */
extern const char *const precision_names[];

/* "wall", then "soc:NAME" of each bundled phone, NULL. */
extern const char *const clock_names[];

/*
 * Convert the pair's options to *opts. The profile of --clock soc:NAME is
 * loaded into *soc, which *opts points to. -errno if it cannot be loaded,
 * -EINVAL for invalid values and combinations.
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

/* ---- several requests ---------------------------------------------------- */

/* Of the library and of servers. Commands that run one request and end do not
 * have these options. */
struct texts_options {
	uint32_t texts; /* requests at a time */
	uint32_t keep;  /* ended requests whose cache is kept */
	uint32_t slots; /* of the KV cache for all; 0: as many as needed */
};
extern const struct opt_table texts_table;

/* Properties of a method, for programs that choose one. */
struct method_facts {
	const char *name;
	const struct method *method;
	bool lossless;  /* generates the text of plain decoding */
	bool drafts;    /* needs a drafter */
	bool diffusion; /* fills masks */
	bool many;      /* generates many samples */
	bool scores;    /* scores samples by a reward */
};
/* The i-th method in the order of help; false after the last. */
bool method_facts(size_t i, struct method_facts *);
/* Whether the method uses the options of that table. */
bool method_takes(const char *name, const struct opt_table *);

/* The i-th method's name, for options whose value is a method. */
bool method_name_word(size_t i, struct opt_word *);

/* Lists of tables (opt_tables): the pair's; the methods' and their parts'; both
 * together. */
const struct opt_table *pair_tables(size_t i);
const struct opt_table *decoding_tables(size_t i);
const struct opt_table *decoder_tables(size_t i);
/* texts_table and decoder_tables together. */
const struct opt_table *library_tables(size_t i);

/* ---- a handle ------------------------------------------------------------ */

/*
 * The two halves of tandem_open, for commands that parse options themselves.
 * tandem_create checks the options and opens nothing. If `parsed` is not NULL,
 * it replaces options.set, must outlive the handle, and options.model is
 * ignored. Returns -errno and no handle on failure. tandem_read_model opens the
 * model (NULL: the bundled one).
 */
int tandem_create(struct tandem **out, const struct tandem_options *,
	const struct opt_values *parsed, struct err *);
int tandem_read_model(struct tandem *, const char *path);

/* Whether the model's context has room for a prompt of so many tokens and one
 * more: 0, or -EFBIG with what to try. predict as in tandem_start_for. */
int tandem_check_room(
	const struct tandem *, uint64_t prompt, int64_t predict, struct err *);

/* The pair's options; the caller may change them until the pair is started. */
struct session_opts *tandem_pair(struct tandem *);

/* -EINVAL for options that have no effect with the chosen drafter and reward.
 * `answers`: the caller knows the right answers, which reward "exact" needs. */
int tandem_check_needless(const struct tandem *, bool answers, struct err *);

/* tandem_start for prompts of at most `prompt` tokens and texts of at most
 * `predict` tokens (-1: not known), which saves KV cache for samples. */
int tandem_start_for(struct tandem *, uint64_t prompt, int64_t predict);

/* tandem_close with the result as -errno and *e. */
int tandem_end(struct tandem *, struct err *);

/* Entries of a command's option table; `values` is a struct opt_values. */
#define PAIR_OPTIONS(values)                                          \
	{                                                             \
		OPT_TABLES, .value = &(values), .tables = pair_tables \
	}
#define DECODING_OPTIONS(values)                                          \
	{                                                                 \
		OPT_TABLES, .value = &(values), .tables = decoding_tables \
	}

#endif
