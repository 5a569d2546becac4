#include "host/cmd/cmd.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "base/user_file.h"
#include "base/version.h"
#include "host/api/options.h"
#include "host/api/tandem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Begin a message on stderr. Flushes stdout first, so that on a terminal the
 * output appears before the message. */
static void begin_message(void)
{
	fflush(stdout);
	fputs("tandem: ", stderr);
}

const char *command_name(const struct command *c)
{
	const char *space = strrchr(c->usage->name, ' ');

	return space ? space + 1 : c->usage->name;
}

const struct command *command_find(
	const struct command *const *list, const char *name)
{
	for (size_t i = 0; list && list[i]; i++)
		if (!strcmp(command_name(list[i]), name))
			return list[i];
	return NULL;
}

/* the command line without the user's prompts */
static struct strbuf command_line;

bool cmd_parse(const struct command *c, int argc, char **argv,
	unsigned *operands, int *status)
{
	struct err e = { 0 };
	int ret;

	strbuf_reset(&command_line);
	opt_without_texts(c->usage, argc, argv, &command_line);
	ret = opt_parse(c->usage, argc, argv, operands, &e);
	if (!ret)
		return true;
	*status = ret > 0 ? EXIT_OK : cmd_misuse(c, "%s", e.text);
	return false;
}

int cmd_fail(const struct err *e)
{
	char path[PATH_MAX];
	int fd = -1;

	begin_message();
	fprintf(stderr, "%s\n", e->text);
	/* Store the error for a later `tandem doctor --report`. Errors of
	 * `tandem doctor` itself are not stored, because they would overwrite
	 * the error to be reported. A failure to store the error is ignored;
	 * the report then lacks the error. */
	if (!command_line.failed && command_line.len &&
		strncmp(command_line.data, "tandem doctor", 13) &&
		!user_file_make_way(USER_STATE, CMD_LAST_ERROR, path))
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd >= 0) {
		dprintf(fd, "version  %s\ncommand  %s\nerror    %s\n",
			TANDEM_VERSION, command_line.data, e->text);
		close(fd);
	}
	return e->code == -ERR_DEVICE_LOST ? EXIT_LOST : EXIT_FAIL;
}

void cmd_end(void)
{
	strbuf_release(&command_line);
}

int cmd_flush(struct err *e)
{
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	return err_sys(
		e, errno ? errno : EIO, "cannot write to standard output");
}

void cmd_warn(const char *fmt, ...)
{
	va_list ap;

	begin_message();
	fputs("warning: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\n", stderr);
}

int cmd_closed(int ret, int closed, const struct err *closing, struct err *e)
{
	if (closed && ret)
		cmd_fail(closing);
	else if (closed)
		*e = *closing;
	return ret ? ret : closed;
}

int cmd_misuse(const struct command *c, const char *fmt, ...)
{
	va_list ap;

	begin_message();
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\ntry '%s --help'\n", c->usage->name);
	return EXIT_MISUSE;
}

int cmd_refuse(const struct command *c, const struct err *e)
{
	return e->code == -ENOMEM ? cmd_fail(e) : cmd_misuse(c, "%s", e->text);
}

volatile sig_atomic_t cmd_interrupted;

static struct tandem *volatile interruptible;

static void (*volatile leave_well)(void);

void cmd_before_end(void (*leave)(void))
{
	leave_well = leave;
}

static void on_interrupt(int sig)
{
	struct tandem *t = interruptible;

	/* On a second signal, restore the default action and raise the signal
	 * again. The signal then ends the program when this handler returns. */
	if (cmd_interrupted) {
		if (leave_well)
			leave_well();
		signal(sig, SIG_DFL);
		raise(sig);
		return;
	}
	cmd_interrupted = sig;
	if (t)
		tandem_cancel(t);
}

void cmd_interrupts(struct tandem *t)
{
	interruptible = t;
}

/* SA_RESTART is set so that the first Ctrl-C does not interrupt a write that
 * waits for a slow reader. */
static const struct sigaction interrupted = { .sa_handler = on_interrupt,
	.sa_flags = SA_RESTART };

void cmd_catch_signals(void)
{

	sigaction(SIGINT, &interrupted, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Catch a signal, except if the parent process has set it to be ignored, as
 * nohup does with SIGHUP. */
static void catch_unless_ignored(int sig)
{
	struct sigaction old;

	if (!sigaction(sig, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(sig, &interrupted, NULL);
}

void cmd_catch_endings(void)
{
	cmd_catch_signals();
	catch_unless_ignored(SIGTERM);
	catch_unless_ignored(SIGHUP);
}

static void print_notice(void *arg, const char *sentence)
{
	begin_message();
	fprintf(stderr, "%s\n", sentence);
}

static struct progress progress_line;
const struct progress_sink cmd_progress = { progress_draw, &progress_line };

void cmd_handle_options(struct tandem_options *o)
{
	tandem_options_init(o, sizeof(*o));
	o->device_talks = true;
	o->progress = cmd_progress.report;
	o->progress_arg = cmd_progress.arg;
	o->notice = print_notice;
}

int cmd_create(
	struct tandem **out, const struct opt_values *values, struct err *e)
{
	struct tandem_options o;

	cmd_handle_options(&o);
	return tandem_create(out, &o, values, e);
}
