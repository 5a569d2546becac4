/*
 * Commands of the `tandem` program. Each command is a file cmd_NAME.c that
 * defines a `struct command`. host/tandem.c lists the commands; help, shell
 * completion and the manual pages are generated from their option tables.
 * Results are printed to stdout, messages to stderr.
 */
#ifndef HOST_CMD_CMD_H
#define HOST_CMD_CMD_H

#include "base/opt.h"
#include "base/progress.h"

#include <signal.h>

struct err;

enum exit_code {
	EXIT_OK = 0,
	EXIT_FAIL = 1,   /* failure; a message on stderr gives the reason */
	EXIT_MISUSE = 2, /* wrong options; the message refers to --help */
	EXIT_LOST = 3,   /* the device process died or hangs */
	EXIT_INTERRUPTED = 128 + SIGINT,
};

struct command {
	/* usage->name is the full name, such as "tandem run"; its last word is
	 * the name of the command */
	const struct opt_command *usage;
	/* returns an exit status */
	int (*run)(int argc, char **argv);
	/* NULL-terminated list of subcommands (such as "lever" of `tandem
	 * bench`); NULL if there are none */
	const struct command *const *inner;
};

extern const struct command cmd_run, cmd_chat, cmd_serve, cmd_eval, cmd_score,
	cmd_perplexity, cmd_logits, cmd_tokenize, cmd_detokenize, cmd_inspect,
	cmd_synth, cmd_convert, cmd_verify, cmd_merge, cmd_bench,
	cmd_bench_lever, cmd_bench_methods, cmd_bench_sdnpu,
	cmd_bench_diffusion, cmd_bench_tts, cmd_bench_price, cmd_bench_serve,
	cmd_doctor, cmd_history, cmd_history_list, cmd_history_stats,
	cmd_history_prune, cmd_history_import, cmd_trace;

/* NULL-terminated list of the commands of `tandem`; defined in host/tandem.c */
extern const struct command *const commands[];

/* Return the last word of the command's full name: "run" for `tandem run`. */
const char *command_name(const struct command *);

/* Find a command by name in a list, which may be NULL. Returns NULL if the list
 * has no such command. */
const struct command *command_find(
	const struct command *const *list, const char *name);

/*
 * Parse the options of a command. Returns true if the caller can continue, with
 * the number of operands in *operands. Returns false if the caller must return
 * *status: help was printed, or a misuse was reported with a hint.
 */
bool cmd_parse(const struct command *, int argc, char **argv,
	unsigned *operands, int *status);

/* Print "tandem: TEXT" and return the exit status for e->code: EXIT_LOST for
 * -ERR_DEVICE_LOST, otherwise EXIT_FAIL. The error text, and the command line
 * without the user's prompts, are stored in the file CMD_LAST_ERROR for `tandem
 * doctor --report`. */
#define CMD_LAST_ERROR "last-error" /* a file name in the folder USER_STATE */
int cmd_fail(const struct err *);

/* Print "tandem: warning: TEXT". The command continues. */
void cmd_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Combine the results of a command (`ret`, *e) and of closing its resources
 * (`closed`, *closing). Returns the first error, which is then in *e, or 0. If
 * both failed, prints *closing too, because a failure of closing is most likely
 * the cause of the other error.
 */
int cmd_closed(int ret, int closed, const struct err *closing, struct err *e);

/* Check that all output has been written to standard output. Returns 0 or a
 * negative errno. */
int cmd_flush(struct err *);
/* Free the memory of cmd.c. Must be the last call of the process. */
void cmd_end(void);

/* Report an invalid value of an option that is detected only after parsing.
 * Returns EXIT_FAIL if memory ran out, otherwise EXIT_MISUSE. */
int cmd_refuse(const struct command *, const struct err *);

/* Report a misuse that is detected only after parsing: print the message, and a
 * line that refers to --help. Returns EXIT_MISUSE. */
int cmd_misuse(const struct command *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Install signal handlers for commands that run for a long time. The first
 * Ctrl-C sets cmd_interrupted (for use as session_opts.cancel); the second
 * Ctrl-C ends the program. Also ignores SIGPIPE: when standard output is
 * closed, a write fails instead, so that the command can stop the device
 * properly.
 */
/* 0 until SIGINT (or, after cmd_catch_endings(), also SIGTERM or SIGHUP)
 * arrives; then the number of this signal */
extern volatile sig_atomic_t cmd_interrupted;
void cmd_catch_signals(void);

/* Set a function that the signal handler calls on the second Ctrl-C before the
 * program ends. NULL means no function. */
void cmd_before_end(void (*leave)(void));

/* Like cmd_catch_signals(), but SIGTERM and SIGHUP also set cmd_interrupted.
 * For commands that must remove a file before they end. Such a command returns
 * 128 + cmd_interrupted. */
void cmd_catch_endings(void);

/* Option -m of commands that run a model; other commands describe -m
 * differently. */
#define MODEL_OPTION(path)                                                     \
	{                                                                      \
		OPT_STRING, 'm', "model", &(path), "FILE",                     \
			"model: a GGUF file, a flash image, or the name of a " \
			"bundled model (target); 'tandem help models' lists "  \
			"them"                                                 \
	}

/*
 * Rows of the sampling options of `tandem run` and `tandem chat`. at(NAME) is
 * the address of the variable or member NAME. The value of --top-p must be
 * top_p_least or more.
 */
/* clang-format off */
#define SAMPLING_ROWS(at, top_p_least)                                         \
	{ OPT_INT, 0, "top-k", at(top_k), "K",                                 \
		"sample from the K most likely tokens (0: all)",               \
		0, INT32_MAX },                                                \
	{ OPT_FLOAT, 0, "top-p", at(top_p), "P",                               \
		"sample from the fewest tokens whose probabilities add up to " \
		"P or more (1: all)", top_p_least, 1 },                        \
	{ OPT_FLOAT, 0, "min-p", at(min_p), "P",                               \
		"sample from tokens at least P times as likely as the most "   \
		"likely (0: all)", 0, 1 },                                     \
	{ OPT_FLOAT, 0, "repeat-penalty", at(repeat_penalty), "X",             \
		"make recent tokens less likely by this factor (1: off)",      \
		0.01, 100 },                                                   \
	{ OPT_INT, 0, "repeat-last", at(repeat_last), "N",                     \
		"number of last tokens to which --repeat-penalty applies (64)",\
		0, INT32_MAX },                                                \
	{ OPT_INT, 0, "seed", at(seed), "S",                                   \
		"seed of the random numbers (1); the same seed gives the "     \
		"same text", 0, (double)(1ll << 53) }
/* clang-format on */

struct opt_values;
struct tandem;
struct tandem_options;

/* Set options of a library handle (struct tandem) so that its progress and
 * notices are printed to the terminal. */
void cmd_handle_options(struct tandem_options *);

/* Create a handle from parsed options (tandem_create()), and set the options of
 * cmd_handle_options(). */
int cmd_create(
	struct tandem **out, const struct opt_values *values, struct err *);

/* Make Ctrl-C also cancel the requests of this handle. NULL means no handle. */
void cmd_interrupts(struct tandem *);

/* A sink that draws progress on a terminal. */
extern const struct progress_sink cmd_progress;

#endif
