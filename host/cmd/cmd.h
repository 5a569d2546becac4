/*
 * Commands of the `tandem` program. Each is one file cmd_NAME.c that defines
 * a `struct command`; host/tandem.c lists them, and help, completion and the
 * man page are made from their option tables. Results go to stdout, talk to
 * stderr.
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
	EXIT_MISUSE = 2, /* wrong options; the message names --help */
	EXIT_LOST = 3,   /* the device process died or hangs */
	EXIT_INTERRUPTED = 128 + SIGINT,
};

struct command {
	/* usage.name is "tandem run"; the command is its last word. */
	const struct opt_command *usage;
	/* Returns an exit code. */
	int (*run)(int argc, char **argv);
	/* Commands of this one ("lever" of `tandem bench`), NULL-terminated;
	 * NULL: it has none. */
	const struct command *const *inner;
};

extern const struct command cmd_run, cmd_chat, cmd_serve, cmd_eval, cmd_score,
	cmd_perplexity, cmd_logits, cmd_tokenize, cmd_detokenize, cmd_inspect,
	cmd_synth, cmd_convert, cmd_verify, cmd_merge, cmd_bench,
	cmd_bench_lever, cmd_bench_methods, cmd_bench_sdnpu,
	cmd_bench_diffusion, cmd_bench_tts, cmd_bench_price, cmd_doctor,
	cmd_history, cmd_history_list, cmd_history_stats, cmd_history_prune,
	cmd_history_import, cmd_trace;

/* Those of `tandem` itself, NULL-terminated (host/tandem.c). */
extern const struct command *const commands[];

/* "run" of `tandem run`. */
const char *command_name(const struct command *);

/* That of a list, which may be NULL; NULL where there is none. */
const struct command *command_find(
	const struct command *const *list, const char *name);

/*
 * Parse a command's options. True: go on with *operands. False: return
 * *status (help was shown, or misuse was reported with a hint).
 */
bool cmd_parse(const struct command *, int argc, char **argv,
	unsigned *operands, int *status);

/* Print "tandem: TEXT" and return the exit code that e->code stands for:
 * EXIT_LOST for -ERR_DEVICE_LOST, else EXIT_FAIL. The text, and the command
 * line without the user's texts, are kept in CMD_LAST_ERROR for the report of
 * `tandem doctor`. */
#define CMD_LAST_ERROR "last-error" /* of USER_STATE */
int cmd_fail(const struct err *);

/* Print "tandem: warning: TEXT": all goes on. */
void cmd_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * What a command that ended with `ret` (*e) returns when closing what it worked
 * with gave `closed`: the first that failed, in *e; when both did, closing has
 * very likely why, and its sentence is printed.
 */
int cmd_closed(int ret, int closed, const struct err *closing, struct err *e);

/* What was printed has come to standard output: 0, or -errno. */
int cmd_flush(struct err *);

/* What came of an option's value after parsing: a misuse, or EXIT_FAIL where
 * the system was short of memory. */
int cmd_refuse(const struct command *, const struct err *);

/* A misuse found after parsing: print TEXT and the hint; EXIT_MISUSE. */
int cmd_misuse(const struct command *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * For commands that work long: the first Ctrl-C sets cmd_interrupted (for
 * session_opts.cancel), the second ends the program. A closed standard output
 * shall end the work, not the program before the device was told: from here on
 * it shows as a failed write.
 */
extern volatile sig_atomic_t cmd_interrupted; /* 0, or the signal's number */
void cmd_catch_signals(void);

/* What the second Ctrl-C does before it ends the program; in a signal handler.
 * NULL: nothing. */
void cmd_before_end(void (*leave)(void));

/* The same for SIGTERM and SIGHUP as well: for commands that have a file to
 * take back. They return 128 + cmd_interrupted. */
void cmd_catch_endings(void);

/* -m of commands that run a model; other commands have more to say. */
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

/* A handle by options that were parsed (tandem_create), whose progress and
 * notices are shown as below. */
int cmd_create(
	struct tandem **out, const struct opt_values *asked, struct err *);

/* The tokens of a request's prompt, of a model that is read: 0 or -errno. */
int cmd_prompt(struct tandem *, const struct tandem_request *,
	struct token_list *out, struct err *);

/* From now on it cancels this handle's text too; NULL: none. */
void cmd_interrupts(struct tandem *);

/* Draws what is told to it, on a terminal. */
extern const struct progress_sink cmd_progress;
/* Says what is told to it. */
extern const struct notice_sink cmd_notice;

#endif
