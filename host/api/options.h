/*
 * The options of a decoder (a model with its session and decoding method,
 * decoder.h). There is a table (names, defaults, help) for the options of the
 * session and its device process, one for those of the decoding method, and one
 * for each part of the method. A struct opt_values holds the values that were
 * set; if all its bytes are zero, all options have their defaults. A command
 * includes PAIR_OPTIONS and DECODING_OPTIONS in its own table; the library sets
 * values with opt_set(decoder_tables, ...). Strings are not copied; the caller
 * keeps ownership.
 */
#ifndef HOST_API_OPTIONS_H
#define HOST_API_OPTIONS_H

#include "base/opt.h"
#include "host/api/tandem.h"
#include "host/draft/drafting_options.h"
#include "host/scheduler/samples_options.h"
#include "host/session/session_opts.h"

struct err;
struct method;
struct soc;

/* ---- host and device processes ------------------------------------------- */

enum flash_io { FLASH_DIRECT, FLASH_BUFFERED, FLASH_THREAD };

struct pair_options {
	/* session options whose values need no conversion */
	struct session_opts session;
	double device_timeout; /* in seconds */
	uint32_t restarts;
	/* limit of the weights that stay in memory, as a share of the weights
	 * or as a size; NULL: no limit */
	const char *dram_budget;
	int flash_io;      /* enum flash_io */
	const char *clock; /* NULL: the wall clock */
	/* model shape of --as (the sizes of the model for which phone times are
	 * computed): index into shapes[], or -1 */
	int as;
	/* type of the matrices of the model shape of --as (--as-type), as an
	 * index for shape_type_at(); -1 if --as-type is not set */
	int as_type;
};
extern const struct opt_table pair_table;

/* Names of enum wire_precision, in its order: "f32", "f16-kv16", "f16", "int8",
 * "npu". The list ends with NULL. */
extern const char *const precision_names[];

/* Values of --clock: "wall", then "soc:NAME" for each phone whose profile is
 * bundled. The list ends with NULL. */
extern const char *const clock_names[];

/*
 * Convert the options to session options. The profile of --clock soc:NAME is
 * loaded into *soc; opts->soc then points to it. Returns 0, -EINVAL for invalid
 * values and combinations, or another negative errno if the profile cannot be
 * loaded.
 */
int pair_apply(const struct opt_values *, struct session_opts *opts,
	struct soc *soc, struct err *);

/* ---- decoding ------------------------------------------------------------ */

struct decoding_options {
	const char *method;
	const char *history; /* file of the history; NULL if there is none */
	uint64_t history_max;
	bool history_frozen;
	int profile; /* enum profile_use */
};
extern const struct opt_table decoding_table;

/* ---- several requests ---------------------------------------------------- */

/* Options of the library and of servers. Commands that run one request and then
 * end do not have these options. */
struct texts_options {
	/* number of requests that are computed at the same time */
	uint32_t texts;
	/* number of ended requests whose keys and values are kept */
	uint32_t keep;
	/* total number of KV-cache slots, shared by all requests; 0: as many as
	 * they need */
	uint32_t slots;
};
extern const struct opt_table texts_table;

/* Properties of a method, for programs that choose among the methods. */
struct method_facts {
	const char *name;
	const struct method *method;
	/* the method generates exactly the text of plain decoding */
	bool lossless;
	bool drafts;    /* the method needs a drafter */
	bool diffusion; /* a diffusion method, which replaces mask tokens */
	bool many;      /* the method generates several samples per request */
	bool scores;    /* the method scores samples with a reward model */
	/*
	 * models that the method can run: bits of enum report_models (report.h)
	 */
	unsigned runs;
};
/* Get the properties of the i-th method, in the order of the help text. Returns
 * false if there are at most i methods. */
bool method_facts(size_t i, struct method_facts *);
/* Whether the method uses the options of the table. */
bool method_takes(const char *name, const struct opt_table *);

/* Set *word to the name of the i-th method. Used for options whose value is the
 * name of a method. */
bool method_name_word(size_t i, struct opt_word *);

/* Each of these functions returns table i of a list of option tables, or NULL
 * after the last table (opt_tables, base/opt.h). pair_tables lists the tables
 * of the session and the device, decoding_tables the tables of the methods and
 * their parts, and decoder_tables all of these tables. */
const struct opt_table *pair_tables(size_t i);
const struct opt_table *decoding_tables(size_t i);
const struct opt_table *decoder_tables(size_t i);
/* Returns table i of the list that consists of texts_table and the tables of
 * decoder_tables, or NULL after the last table. */
const struct opt_table *library_tables(size_t i);

/* ---- a handle ------------------------------------------------------------ */

/*
 * tandem_open in two steps, for commands that parse options themselves.
 * tandem_create checks the options and opens no file. If `parsed` is not NULL,
 * *parsed replaces options.set and must stay valid as long as the handle, and
 * options.model is ignored. On failure tandem_create returns -errno and creates
 * no handle. tandem_read_model opens the model (NULL: the bundled model).
 */
int tandem_create(struct tandem **out, const struct tandem_options *,
	const struct opt_values *parsed, struct err *);
int tandem_read_model(struct tandem *, const char *path);

/*
 * Check that the model's context has room for a prompt of `prompt` tokens and
 * one generated token. Returns 0, or -EFBIG with a message that suggests a
 * remedy. `predict` is the largest number of tokens that will be generated (-1:
 * not known).
 */
int tandem_check_room(
	const struct tandem *, uint64_t prompt, int64_t predict, struct err *);

/*
 * Estimate the memory of both processes together after tandem_start(t, tokens),
 * in bytes (the comment of decoder_need lists the parts). Returns 0, or the
 * error with which starting would fail.
 */
int tandem_need(
	struct tandem *, uint64_t tokens, uint64_t *bytes, struct err *);

/* The session options of the handle. The caller may change them until the
 * session is started. */
struct session_opts *tandem_pair(struct tandem *);

/* Returns 0, or -EINVAL for an option that has no effect with the chosen
 * drafter and reward model. `answers` means that the caller knows the right
 * answers, which the reward model "exact" needs. */
int tandem_check_needless(const struct tandem *, bool answers, struct err *);

/*
 * Like tandem_start, for prompts of at most `prompt` tokens and generated texts
 * of at most `predict` tokens (-1: not known). If requests have several
 * samples, a known `predict` makes the KV cache smaller.
 */
int tandem_start_for(struct tandem *, uint64_t prompt, int64_t predict);

/* Like tandem_close, but returns 0 or -errno, and sets *e after an error. */
int tandem_end(struct tandem *, struct err *);

/* Rows for the option table of a command. They include the tables of
 * pair_tables or decoding_tables, and store the options in `values`, a struct
 * opt_values. */
#define PAIR_OPTIONS(values)                                          \
	{                                                             \
		OPT_TABLES, .value = &(values), .tables = pair_tables \
	}
#define DECODING_OPTIONS(values)                                          \
	{                                                                 \
		OPT_TABLES, .value = &(values), .tables = decoding_tables \
	}

#endif
