#include "host/cmd/chat_input.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "base/user_file.h"
#include "host/cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#define LINES_MAX 1000

struct chat_input {
	EditLine *edit; /* NULL if standard input is not a terminal */
	History *history;
	/* history file; "" if lines are not kept in a file */
	char file[PATH_MAX];
	const char *prompt;
	sigset_t waiting; /* signal mask during the wait for input */
	char *line;       /* buffer for getline() */
	size_t cap;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	interrupted = 1;
}

static char *show_prompt(EditLine *edit)
{
	struct chat_input *in;
	static char text[8];

	el_get(edit, EL_CLIENTDATA, &in);
	snprintf(text, sizeof(text), "%s", in->prompt);
	return text;
}

/*
 * Read a character for libedit. Unlike libedit's own function, read_character()
 * returns when a signal arrives. Signals are unblocked only during the wait, so
 * no signal can arrive unnoticed between the check of `interrupted` and the
 * wait.
 */
static int read_character(EditLine *edit, wchar_t *out)
{
	struct pollfd fd = { .fd = STDIN_FILENO, .events = POLLIN };
	struct chat_input *in;
	mbstate_t state = { 0 };
	char byte;

	el_get(edit, EL_CLIENTDATA, &in);
	for (;;) {
		ssize_t n;
		size_t got;

		while (ppoll(&fd, 1, NULL, &in->waiting) < 0)
			if (errno != EINTR || interrupted)
				return -1;
		n = read(STDIN_FILENO, &byte, 1);
		if (n <= 0)
			return (int)n;
		got = mbrtowc(out, &byte, 1, &state);
		if (got == (size_t)-1) { /* the byte is not valid UTF-8 */
			*out = L'\xfffd';
			return 1;
		}
		if (got != (size_t)-2)
			return 1;
	}
}

/* ---- opening ------------------------------------------------------------- */

static int open_terminal(struct chat_input *in, bool keeps, struct err *e)
{
	HistEvent event;
	int fd;

	setlocale(LC_CTYPE, "C.UTF-8");
	in->edit = el_init("tandem", stdin, stdout, stderr);
	in->history = history_init();
	if (!in->edit || !in->history)
		return err_set(e, ENOMEM, "no memory to edit lines");
	el_set(in->edit, EL_CLIENTDATA, in);
	el_set(in->edit, EL_PROMPT, show_prompt);
	el_set(in->edit, EL_EDITOR, "emacs");
	el_set(in->edit, EL_GETCFN, read_character);
	el_set(in->edit, EL_HIST, history, in->history);
	history(in->history, &event, H_SETSIZE, LINES_MAX);
	history(in->history, &event, H_SETUNIQUE, 1);
	el_source(in->edit, NULL);
	if (!keeps ||
		user_file_make_way(USER_STATE, "chat-history", in->file)) {
		in->file[0] = '\0';
		return 0;
	}
	/* Make the file readable only by its owner. */
	fd = open(in->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || fchmod(fd, 0600))
		in->file[0] = '\0';
	else
		history(in->history, &event, H_LOAD, in->file);
	if (fd >= 0)
		close(fd);
	return 0;
}

int chat_input_open(struct chat_input **out, bool keeps, struct err *e)
{
	struct chat_input *in = calloc(1, sizeof(*in));
	int ret = 0;

	if (!in)
		return err_set(e, ENOMEM, "no memory to read lines");
	in->prompt = "> ";
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		ret = open_terminal(in, keeps, e);
	if (ret)
		chat_input_close(in);
	else
		*out = in;
	return ret;
}

void chat_input_close(struct chat_input *in)
{
	HistEvent event;

	if (!in)
		return;
	if (in->file[0])
		history(in->history, &event, H_SAVE, in->file);
	if (in->history)
		history_end(in->history);
	if (in->edit)
		el_end(in->edit);
	free(in->line);
	free(in);
}

bool chat_input_is_terminal(const struct chat_input *in)
{
	return in->edit;
}

/* ---- reading ------------------------------------------------------------- */

/* Read a line from the terminal with libedit. Returns NULL at the end of the
 * input or after Ctrl-C. */
static const char *edit_line(struct chat_input *in, const char *prompt)
{
	struct sigaction old, catch = { .sa_handler = on_interrupt };
	sigset_t interrupts;
	const char *line = NULL;
	int n = 0;

	in->prompt = prompt;
	interrupted = 0;
	sigemptyset(&interrupts);
	sigaddset(&interrupts, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupts, &in->waiting);
	sigaction(SIGINT, &catch, &old);
	/* A signal that arrived between two prompts interrupts this prompt. */
	if (cmd_interrupted)
		interrupted = 1;
	else
		line = el_gets(in->edit, &n);
	cmd_interrupted = 0;
	/* Restore the signal mask first and the old handler second: a signal
	 * that is still pending belongs to this prompt, so on_interrupt() must
	 * handle it. */
	sigprocmask(SIG_SETMASK, &in->waiting, NULL);
	sigaction(SIGINT, &old, NULL);
	if (interrupted)
		fputs("^C\n", stdout);
	return n > 0 && !interrupted ? line : NULL;
}

static bool is_quotes(const char *line)
{
	return !strcmp(line, "\"\"\"\n") || !strcmp(line, "\"\"\"");
}

static enum chat_read edit_turn(struct chat_input *in, struct strbuf *text)
{
	const char *line = edit_line(in, "> ");
	HistEvent event;

	if (line && is_quotes(line)) {
		while ((line = edit_line(in, ". ")) && !is_quotes(line))
			strbuf_add(text, line, strlen(line));
	} else {
		for (; line; line = edit_line(in, ". ")) {
			size_t len = strcspn(line, "\n");

			if (!len || line[len - 1] != '\\') {
				strbuf_add(text, line, len);
				break;
			}
			strbuf_add(text, line, len - 1);
			strbuf_add(text, "\n", 1);
		}
	}
	if (!line)
		return interrupted ? CHAT_INTERRUPTED : CHAT_END;
	if (text->len && text->data[text->len - 1] == '\n')
		text->data[--text->len] = '\0';
	if (text->len && text->data[strspn(text->data, " \t\n")])
		history(in->history, &event, H_ENTER, text->data);
	return CHAT_TURN;
}

enum chat_read chat_input_read(struct chat_input *in, struct strbuf *text)
{
	ssize_t n;

	strbuf_reset(text);
	if (in->edit)
		return edit_turn(in, text);
	errno = 0;
	n = getline(&in->line, &in->cap, stdin);
	if (n < 0 && errno == ENOMEM) {
		text->failed = true;
		return CHAT_TURN;
	}
	if (n < 0)
		return CHAT_END;
	if (n && in->line[n - 1] == '\n')
		n--;
	strbuf_add(text, in->line, (size_t)n);
	return CHAT_TURN;
}
