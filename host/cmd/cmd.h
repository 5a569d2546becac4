/*
 * Commands of the `tandem` program. Each is a file cmd_NAME.c that defines a
 * `struct command`; host/tandem.c lists them, and help, completion and man page
 * are made from their option tables. Results go to stdout, messages to stderr.
 */
#ifndef HOST_CMD_CMD_H
#define HOST_CMD_CMD_H

#include "base/opt.h"
#include "base/progress.h"

#include <signal.h>

struct err;

enum exit_code {
	EXIT_OK = 0,
	EXIT_FAIL = 1,   /* a message on stderr says why */
	EXIT_MISUSE = 2, /* wrong options; the message refers to --help */
	EXIT_LOST = 3,   /* the device process died or hangs */
	EXIT_INTERRUPTED = 128 + SIGINT,
};

struct command {
	/* usage.name is "tandem run": the last word is the command's name. */
	const struct opt_command *usage;
	/* Returns an exit code. */
	int (*run)(int argc, char **argv);
	/* Subcommands ("lever" of `tandem bench`), NULL-terminated; NULL:
	 * none. */
	const struct command *const *inner;
};

extern const struct command cmd_run, cmd_chat, cmd_serve, cmd_eval, cmd_score,
	cmd_perplexity, cmd_logits, cmd_tokenize, cmd_detokenize, cmd_inspect,
	cmd_synth, cmd_convert, cmd_verify, cmd_merge, cmd_bench,
	cmd_bench_lever, cmd_bench_methods, cmd_bench_sdnpu,
	cmd_bench_diffusion, cmd_bench_tts, cmd_bench_price, cmd_doctor,
	cmd_history, cmd_history_list, cmd_history_stats, cmd_history_prune,
	cmd_history_import, cmd_trace;

/* The commands of `tandem`, NULL-terminated (host/tandem.c). */
extern const struct command *const commands[];

/* The last word of the usage's name: "run" of `tandem run`. */
const char *command_name(const struct command *);

/* Find a command by name in a list, which may be NULL; NULL: not found. */
const struct command *command_find(
	const struct command *const *list, const char *name);

/*
 * Parse a command's options. True: continue with *operands. False: return
 * *status (help was printed, or a misuse was reported with a hint).
 */
bool cmd_parse(const struct command *, int argc, char **argv,
	unsigned *operands, int *status);

/* Print "tandem: TEXT" and return the exit status for e->code: EXIT_LOST for
 * -ERR_DEVICE_LOST, otherwise EXIT_FAIL. The text, and the command line without
 * the user's texts, are stored in CMD_LAST_ERROR for `tandem doctor
 * --report`. */
#define CMD_LAST_ERROR "last-error" /* in USER_STATE */
int cmd_fail(const struct err *);

/* Print "tandem: warning: TEXT" and continue. */
void cmd_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * The result of a command that ended with `ret` (*e) and whose resources were
 * closed with `closed` (*closing): the first error, in *e. If both failed, the
 * error of closing most likely is the cause, and is printed too.
 */
int cmd_closed(int ret, int closed, const struct err *closing, struct err *e);

/* Check that all output has reached standard output: 0, or -errno. */
int cmd_flush(struct err *);

/* Report an option's value that was refused after parsing: as a misuse, or with
 * EXIT_FAIL if memory was short. */
int cmd_refuse(const struct command *, const struct err *);

/* Report a misuse found after parsing: print TEXT and the hint; returns
 * EXIT_MISUSE. */
int cmd_misuse(const struct command *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * For commands that run for long: the first Ctrl-C sets cmd_interrupted (for
 * session_opts.cancel), the second ends the program. Also ignores SIGPIPE: a
 * closed standard output then shows as a failed write, so that the device is
 * stopped properly.
 */
extern volatile sig_atomic_t cmd_interrupted; /* 0, or the signal number */
void cmd_catch_signals(void);

/* A function that the second Ctrl-C calls before it ends the program, in the
 * signal handler; NULL: none. */
void cmd_before_end(void (*leave)(void));

/* The same for SIGTERM and SIGHUP, for commands that have a file to remove.
 * They return 128 + cmd_interrupted. */
void cmd_catch_endings(void);

/* -m for commands that run a model; other commands describe it differently. */
#define MODEL_OPTION(path)                                                     \
	{                                                                      \
		OPT_STRING, 'm', "model", &(path), "FILE",                     \
			"model: a GGUF file, a flash image, or the name of a " \
			"bundled model (target); 'tandem help models' lists "  \
			"them"                                                 \
	}

struct opt_values;
struct tandem;
struct tandem_request;
struct token_list;

/* Create a handle from parsed options (tandem_create), with the progress and
 * notices below. */
int cmd_create(
	struct tandem **out, const struct opt_values *values, struct err *);

/* Tokenize a request's prompt; the handle's model must be read. 0 or -errno. */
int cmd_prompt(struct tandem *, const struct tandem_request *,
	struct token_list *out, struct err *);

/* From now on Ctrl-C cancels this handle's requests too; NULL: none. */
void cmd_interrupts(struct tandem *);

/* Draws progress on a terminal. */
extern const struct progress_sink cmd_progress;

#endif
