/* tandem chat: runs a conversation with a model. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/cmd/chat_input.h"
#include "host/cmd/conversation.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- options ------------------------------------------------------------- */

static struct opt_values values;
static const char *model_path, *system_text, *load_path;
static bool as_json, no_history;

/* clang-format off */
static const struct opt opts[] = {
	MODEL_OPTION(model_path),
	{ OPT_STRING, 0, "system", &system_text, "TEXT",
		"text of the conversation's system turn, as set by /system" },
	{ OPT_STRING, 0, "load", &load_path, "FILE",
		"continue the conversation in FILE, written by /save" },
	{ OPT_TABLES, .value = &values, .tables = drawing_tables },
	DECODING_OPTIONS(values),
	{ .type = OPT_GROUP, .name = "terminal" },
	{ OPT_FLAG, 0, "no-history", &no_history, NULL,
		"do not save input lines for the next conversation" },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object for each turn instead of the answer" },
	PAIR_OPTIONS(values),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem chat",
	.synopsis = "[-m MODEL] [--system TEXT] [OPTIONS]",
	.summary = "chat with a model on the terminal",
	.details = "Reads turns from the terminal and writes the answers as "
		   "they are generated. Lines that begin with / are commands; "
		   "/help lists them. Ctrl-C stops an answer. Ctrl-D at the "
		   "prompt, or Ctrl-C twice, ends the program.\n\n"
		   "If standard input is a pipe, each line is a turn, and only "
		   "answers are written to standard output.\n\n"
		   "The conversation is put into the model's chat template; a "
		   "model without one continues the text as it is. When the "
		   "context is full, the program reports the number of tokens "
		   "and drops nothing: /reset begins a new conversation.\n\n"
		   "Input lines are saved in tandem/chat-history below "
		   "$XDG_STATE_HOME (~/.local/state), readable by the user "
		   "only. docs/chat.md has the details.",
	.examples =
		"  tandem chat -m model.gguf\n"
		"  tandem chat -m model.gguf --system 'You answer in one sentence.' --temp 0.7\n"
		"  printf 'Hello\\nWho are you?\\n' | tandem chat -m model.gguf",
	.common = "model system load predict temp seed method draft ctx "
		  "threads dram-budget json",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

/* ---- the conversation ---------------------------------------------------- */

/* Process a line of input. Returns 0, CONVERSATION_QUIT, or a negative errno if
 * the program must end. */
static int take_line(struct conversation *c, struct strbuf *line)
{
	const char *text = line->data ? line->data : "";
	struct tandem_report r = { .dead = true };
	struct err e = { 0 };
	int ret;

	if (line->failed) {
		ret = err_set(&e, ENOMEM,
			"no memory for one turn of the conversation");
		cmd_fail(&e);
		return ret;
	}
	if (!text[strspn(text, " \t\r\n")])
		return 0;
	if (text[0] == '/' && text[1] == '/') {
		memmove(line->data, line->data + 1, line->len--);
		ret = conversation_answer(c, line, &e);
	} else {
		ret = text[0] == '/' ? conversation_command(c, text, &e)
				     : conversation_answer(c, line, &e);
	}
	if (ret >= 0)
		return ret;
	c->failed = true;
	cmd_fail(&e);
	/* If the library handle accepts no more requests, the conversation
	 * cannot continue. */
	if (c->tandem)
		tandem_report(c->tandem, &r);
	return r.dead || c->write_errno ? ret : 0;
}

static int chat_main(int argc, char **argv)
{
	struct texts_options *texts = opt_values_at(&values, &texts_table);
	struct conversation c = { .values = &values };
	struct strbuf line = STRBUF_INIT;
	bool interrupted_once = false;
	struct chat_input *input = NULL;
	struct tandem_report r;
	struct err e = { 0 }, closing = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_chat, argc, argv, &operands, &status))
		return status;
	/* Keep the cached tokens of one sequence, so that the next turn can
	 * reuse them. */
	texts->keep = 1;
	c.model_path = model_path;
	c.as_json = as_json;
	if (cmd_create(&c.tandem, &values, &e))
		return cmd_refuse(&cmd_chat, &e);
	cmd_catch_signals();
	ret = conversation_start(&c, &e);
	if (!ret && load_path)
		ret = conversation_load(&c, load_path, true, &e);
	if (!ret && system_text)
		ret = conversation_set_system(&c, system_text, &e);
	if (!ret)
		ret = chat_input_open(&input, !no_history, &e);
	if (ret)
		cmd_fail(&e);
	if (!ret && c.plain)
		cmd_warn("the model has no known chat template; it continues "
			 "the text of a turn as it is");
	if (!ret && chat_input_is_terminal(input)) {
		tandem_report(c.tandem, &r);
		fprintf(stderr, "%s, context %u tokens; /help lists commands\n",
			r.model_path, r.context);
	}
	/* Pressing Ctrl-C twice in a row at the prompt ends the
	 * conversation. */
	while (!ret) {
		enum chat_read got = chat_input_read(input, &line);

		if (got == CHAT_END ||
			(got == CHAT_INTERRUPTED && interrupted_once))
			break;
		interrupted_once = got == CHAT_INTERRUPTED;
		if (interrupted_once) {
			fputs("Ctrl-C again, or Ctrl-D, exits\n", stderr);
			continue;
		}
		ret = take_line(&c, &line);
		if (cmd_interrupted && !chat_input_is_terminal(input))
			break;
	}
	status = ret == -ERR_DEVICE_LOST ? EXIT_LOST
		: ret < 0 || (c.failed && !chat_input_is_terminal(input))
		? EXIT_FAIL
		: EXIT_OK;
	if (conversation_stop(&c, &closing))
		status = cmd_fail(&closing);
	chat_input_close(input);
	strbuf_release(&line);
	conversation_release(&c);
	return status;
}

const struct command cmd_chat = { .usage = &usage, .run = chat_main };
