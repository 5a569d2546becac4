/* tandem chat: a conversation with a model. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/api/prompt.h"
#include "host/api/tandem_impl.h"
#include "host/cmd/chat_input.h"
#include "host/cmd/json_text.h"
#include "host/cmd/talk.h"
#include "host/model/model.h"
#include "host/text/chat.h"
#include "host/text/generation.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ------------------------------------------------------------- */

/* How answers are drawn; /set changes it from turn to turn. */
struct drawing {
	int64_t predict, top_k, repeat_last, seed;
	double temperature, top_p, min_p, repeat_penalty;
};

static const struct drawing drawing_defaults = { .predict = -1,
	.repeat_last = 64,
	.seed = 1,
	.temperature = NAN,
	.top_p = 1,
	.repeat_penalty = 1 };

/* clang-format off */
#define IN(field) OPT_IN(drawing, field)
static const struct opt drawing_rows[] = {
	{ OPT_INT, 'n', "predict", IN(predict), "N",
		"tokens of an answer at most (-1: until it ends or the context "
		"is full)", -1, INT32_MAX },
	{ OPT_FLOAT, 0, "temp", IN(temperature), "T",
		"temperature; 0 is greedy: always the most likely token (0)",
		0, 1000 },
	{ OPT_INT, 0, "top-k", IN(top_k), "K",
		"draw from the K most likely tokens (0: all)", 0, INT32_MAX },
	{ OPT_FLOAT, 0, "top-p", IN(top_p), "P",
		"draw from the fewest tokens whose probabilities reach P "
		"(1: all)", 0.0001, 1 },
	{ OPT_FLOAT, 0, "min-p", IN(min_p), "P",
		"draw from tokens at least P times as likely as the likeliest "
		"(0: all)", 0, 1 },
	{ OPT_FLOAT, 0, "repeat-penalty", IN(repeat_penalty), "X",
		"make recent tokens less likely by this factor (1: no)",
		0.01, 100 },
	{ OPT_INT, 0, "repeat-last", IN(repeat_last), "N",
		"tokens that count as recent (64)", 0, INT32_MAX },
	{ OPT_INT, 0, "seed", IN(seed), "S",
		"seed of the random numbers (1); the same seed draws the same "
		"tokens", 0, (double)(1ll << 53) },
};
#undef IN
/* clang-format on */

static const struct opt_table drawing_table = { "Answers", drawing_rows,
	ARRAY_LEN(drawing_rows), &drawing_defaults, sizeof(struct drawing) };

static const struct opt_table *drawing_tables(size_t i)
{
	return i ? NULL : &drawing_table;
}

/* What /set takes: all of a decoder, and how it draws. */
static const struct opt_table *chat_tables(size_t i)
{
	return i ? decoder_tables(i - 1) : &drawing_table;
}

static struct opt_values asked;
static const char *model_path, *system_text, *load_path;
static bool as_json, no_history;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &model_path, "FILE",
		"the model: a GGUF file, an image or the name of one that comes "
		"with the program (target; for diffusion, diffusion or block)" },
	{ OPT_STRING, 0, "system", &system_text, "TEXT",
		"the system's turn, as /system sets it" },
	{ OPT_STRING, 0, "load", &load_path, "FILE",
		"go on with a conversation that /save wrote" },
	{ OPT_TABLES, .value = &asked, .tables = drawing_tables },
	DECODING_OPTIONS(asked),
	{ .type = OPT_GROUP, .name = "Terminal" },
	{ OPT_FLAG, 0, "no-history", &no_history, NULL,
		"remember no lines from one conversation to the next" },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print an object a turn in place of the answer" },
	PAIR_OPTIONS(asked),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem chat",
	.synopsis = "[-m MODEL] [--system TEXT] [OPTIONS]",
	.summary = "talk with a model",
	.details =
		"Reads turns from the terminal and writes the answers as they "
		"come. Lines that begin with a / are commands; /help lists "
		"them. Ctrl-C ends an answer, twice at the prompt it ends the "
		"program; so does Ctrl-D.\n\n"
		"From a pipe each line is a turn, and only answers go to "
		"standard output:\n\n"
		"  printf 'Hello\\nWho are you?\\n' | tandem chat -m MODEL\n\n"
		"What was said goes into the model's chat template; a model "
		"without one goes on with the text as it is. Where the context "
		"is full the program says so, with numbers, and drops nothing: "
		"/reset begins anew.\n\n"
		"Lines are remembered in tandem/chat-history below "
		"$XDG_STATE_HOME (~/.local/state), which its user alone may "
		"read. docs/chat.md tells of all of it.",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

/* ---- a conversation ------------------------------------------------------ */

struct chat {
	struct tandem *tandem;
	struct chat_input *input;
	struct talk talk;
	bool plain; /* the model has no template that is known */
	char **set; /* copies of what /set said, which `asked` borrows */
	size_t n_set;
	unsigned turns;
	/* The answer being written. */
	struct strbuf text;
	struct token_list tokens;
	bool newline_due, written; /* was anything */
	int write_errno;
	struct tandem_result last; /* of the last answer */
	double first;
	bool failed; /* a turn was not answered: the exit status of a pipe */
};

static const struct drawing *drawing(void)
{
	return opt_values_of(&asked, &drawing_table);
}

static void say(const struct err *e)
{
	cmd_fail(e);
}

/* ---- opening ------------------------------------------------------------- */

static int create(
	struct tandem **out, const struct opt_values *v, struct err *e)
{
	struct tandem_options o;

	tandem_options_init(&o, sizeof(o));
	o.device_talks = true;
	o.progress = cmd_progress.tell;
	o.progress_arg = cmd_progress.arg;
	o.notice = cmd_notice.tell;
	o.notice_arg = cmd_notice.arg;
	return tandem_create(out, &o, v, e);
}

static bool is_plain(const struct tandem *t)
{
	enum chat_family family = chat_of(t->decoder.model->gguf);

	return family == CHAT_NONE || family == CHAT_UNKNOWN;
}

static int start(struct chat *c, struct err *e)
{
	int ret = tandem_read_model(c->tandem, model_path);

	if (!ret)
		ret = tandem_start(c->tandem, 0);
	if (ret) {
		*e = c->tandem->err;
		return e->code;
	}
	c->plain = is_plain(c->tandem);
	return 0;
}

static int stop(struct chat *c, struct err *e)
{
	int ret = c->tandem ? tandem_end(c->tandem, e) : 0;

	c->tandem = NULL;
	return ret;
}

/* ---- a turn -------------------------------------------------------------- */

static int tell(void *arg, int32_t id, const char *text, size_t len)
{
	struct chat *c = arg;

	strbuf_add(&c->text, text, len);
	if (id >= 0 && token_list_add(&c->tokens, id))
		c->text.failed = true;
	if (c->text.failed)
		return -ENOMEM;
	if (as_json || !len)
		return 0;
	c->newline_due = text[len - 1] != '\n';
	fwrite(text, 1, len, stdout);
	if (fflush(stdout) || ferror(stdout))
		c->write_errno = errno ? errno : EIO;
	return -c->write_errno;
}

/* All that was said, without a template: answers by their tokens, so that each
 * prompt begins with the last. */
static int add_plain(
	const struct chat *c, struct token_list *out, struct err *e)
{
	const struct decoder *d = &c->tandem->decoder;
	int ret = 0;

	for (size_t i = 0; i < c->talk.n && !ret; i++) {
		const struct talk_turn *t = &c->talk.turn[i];
		size_t n = t->n_tokens;

		if (n && tokenizer_is_eog(d->tokenizer, t->tokens[n - 1]))
			n--;
		for (size_t k = 0; k < n && !ret; k++)
			ret = token_list_add(out, t->tokens[k]);
		if (!t->tokens)
			ret = tokenize(d->tokenizer, t->text, t->bytes,
				i ? TOKENIZE_GOES_ON : 0, out, e);
	}
	if (ret == -ENOMEM)
		return err_set(e, ENOMEM, "no memory for the prompt");
	return ret ? ret : decoder_add_bos(d, out, e);
}

static void fill_request(struct chat *c, struct tandem_request *q)
{
	const struct drawing *d = drawing();

	tandem_request_init(q, sizeof(*q));
	q->max_tokens = d->predict;
	q->temperature = d->temperature;
	q->top_k = (uint32_t)d->top_k;
	q->top_p = d->top_p;
	q->min_p = d->min_p;
	q->repeat_penalty = d->repeat_penalty;
	q->repeat_last = (uint32_t)d->repeat_last;
	q->seed = (uint64_t)d->seed;
	q->sink = tell;
	q->sink_arg = c;
}

static int read_prompt(struct chat *c, struct token_list *out, struct err *e)
{
	struct tandem_request q;
	struct tandem_turn *turns;
	int ret;

	if (c->plain)
		return add_plain(c, out, e);
	turns = talk_turns(&c->talk);
	if (!turns)
		return err_set(e, ENOMEM, "no memory for the turns");
	fill_request(c, &q);
	q.flags = TANDEM_CHAT;
	q.turns = turns;
	q.n_turns = c->talk.n;
	ret = tandem_read_prompt(c->tandem, &q, out);
	if (ret)
		*e = c->tandem->err;
	free(turns);
	return ret ? e->code : 0;
}

static int check_room(const struct chat *c, size_t n, struct err *e)
{
	uint32_t room = session_context(c->tandem->decoder.session);

	if (n < room)
		return 0;
	return err_set(e, EFBIG,
		"the conversation with this turn has %zu tokens, and the "
		"context has room for %u; nothing was dropped: /reset begins "
		"anew, /save FILE keeps what was said",
		n, room);
}

static int generate(
	struct chat *c, const struct token_list *prompt, struct err *e)
{
	struct tandem_request q;
	int ret;

	fill_request(c, &q);
	q.tokens = prompt->id;
	q.n_tokens = prompt->n;
	strbuf_reset(&c->text);
	c->tokens.n = 0;
	c->newline_due = false;
	c->last = (struct tandem_result){ .size = sizeof(c->last) };
	cmd_interrupts(c->tandem);
	ret = tandem_generate(c->tandem, &q, &c->last);
	cmd_interrupts(NULL);
	if (c->newline_due || (!as_json && !c->text.len && !ret)) {
		putchar('\n');
		fflush(stdout);
	}
	if (c->write_errno)
		return err_sys(e, c->write_errno, "cannot write the answer");
	if (c->text.failed)
		return err_set(e, ENOMEM, "no memory for an answer");
	if (ret == TANDEM_CANCELED) {
		cmd_interrupted = 0;
		return 0;
	}
	if (ret)
		*e = c->tandem->err;
	return ret ? e->code : 0;
}

static const char *stop_name(const struct chat *c)
{
	static const char *const names[] = { "interrupted", "eos", "stop",
		"length", "context", "error" };

	return names[c->last.stop];
}

static int print_object(const struct chat *c)
{
	json_t *o = json_pack("{sisisosssIsIsIsf}", "version", 1, "turn",
		(int)c->turns, "text",
		json_text((struct gguf_str){
			c->text.data ? c->text.data : "", c->text.len }),
		"stop", stop_name(c), "prompt_tokens",
		(json_int_t)c->last.prompt_tokens, "cached_tokens",
		(json_int_t)c->last.cached_tokens, "tokens",
		(json_int_t)c->last.tokens, "time_s", c->last.seconds);
	int ret = o ? json_dumpf(o, stdout, JSON_COMPACT) : -1;

	json_decref(o);
	if (!ret)
		putchar('\n');
	return ret || fflush(stdout) ? -EIO : 0;
}

static void note_full(const struct chat *c)
{
	uint32_t room = session_context(c->tandem->decoder.session);

	if (c->last.stop == TANDEM_STOP_CONTEXT)
		cmd_warn("the context of %u tokens is full: %llu of the "
			 "conversation, %llu of this answer, which breaks off; "
			 "/reset begins anew, /save FILE keeps what was said",
			room, (unsigned long long)c->last.prompt_tokens,
			(unsigned long long)c->last.tokens);
}

/* The turn and its answer become part of what was said, or neither does. */
static int answer(struct chat *c, const struct strbuf *said, struct err *e)
{
	struct token_list prompt = { 0 };
	int ret = talk_add(&c->talk, "user", said->data ? said->data : "",
		said->len, NULL, e);

	if (ret)
		return ret;
	ret = read_prompt(c, &prompt, e);
	if (!ret)
		ret = check_room(c, prompt.n, e);
	if (!ret)
		ret = generate(c, &prompt, e);
	if (!ret)
		ret = talk_add(&c->talk, "assistant",
			c->text.data ? c->text.data : "", c->text.len,
			&c->tokens, e);
	free(prompt.id);
	if (ret) {
		talk_drop(&c->talk);
		return ret;
	}
	c->turns++;
	note_full(c);
	return as_json && print_object(c)
		? err_sys(e, errno ? errno : EIO,
			  "cannot write to standard output")
		: 0;
}

/* ---- settings ------------------------------------------------------------ */

/* A copy that stays as long as the program: options borrow their text. */
static char *keep_text(struct chat *c, const char *text)
{
	char **p = reallocarray(c->set, c->n_set + 1, sizeof(*p));
	char *copy = strdup(text);

	if (p)
		c->set = p;
	if (!p || !copy) {
		free(copy);
		return NULL;
	}
	c->set[c->n_set++] = copy;
	return copy;
}

/* With what `v` asks for in place of what there is; that stays where `v` cannot
 * be meant. */
static int reopen(struct chat *c, const struct opt_values *v, struct err *e)
{
	struct tandem *new;
	int ret = create(&new, v, e);

	if (ret)
		return ret;
	ret = stop(c, e);
	if (ret)
		cmd_warn("%s", e->text);
	c->tandem = new;
	ret = start(c, e);
	if (!ret)
		asked = *v;
	return ret;
}

/* Back to what there was; where even that fails the program ends. */
static int set_decoder(
	struct chat *c, const struct opt_values *v, struct err *e)
{
	struct tandem *was = c->tandem;
	struct err again = { 0 };
	int ret = reopen(c, v, e);

	if (!ret || c->tandem == was)
		return ret;
	stop(c, &again);
	ret = create(&c->tandem, &asked, &again);
	if (!ret)
		ret = start(c, &again);
	if (!ret)
		return e->code;
	say(e);
	*e = again;
	stop(c, &again);
	return ret;
}

static const struct opt *drawing_row(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(drawing_rows); i++)
		if (!strcmp(drawing_rows[i].name, name))
			return &drawing_rows[i];
	return NULL;
}

/* "name=value", or a flag's name; how answers are drawn is changed at once. */
static int set_option(struct chat *c, const char *said, struct err *e)
{
	struct opt_values v = asked;
	char *name = keep_text(c, said), *value;
	int ret;

	if (!name)
		return err_set(e, ENOMEM, "no memory for an option");
	value = strchr(name, '=');
	if (value)
		*value++ = '\0';
	ret = opt_set(chat_tables, &v, name, value, e);
	if (ret)
		return ret;
	if (!drawing_row(name))
		return set_decoder(c, &v, e);
	asked = v;
	return 0;
}

/* ---- files --------------------------------------------------------------- */

static json_t *settings_json(void)
{
	const struct drawing *d = drawing();
	json_t *o = json_pack("{sIsIsIsIsfsfsf}", "predict",
		(json_int_t)d->predict, "top-k", (json_int_t)d->top_k,
		"repeat-last", (json_int_t)d->repeat_last, "seed",
		(json_int_t)d->seed, "top-p", d->top_p, "min-p", d->min_p,
		"repeat-penalty", d->repeat_penalty);

	if (o && !isnan(d->temperature))
		json_object_set_new(o, "temp", json_real(d->temperature));
	return o;
}

static int save(struct chat *c, const char *path, struct err *e)
{
	json_t *settings = settings_json();
	int ret = settings ? talk_save(&c->talk, settings, path, e)
			   : err_set(e, ENOMEM, "no memory for the settings");

	json_decref(settings);
	return ret;
}

/* All of them or none; what the command line says stays where it `stands`. */
static int take_settings(json_t *settings, bool stands, struct err *e)
{
	struct opt_values v = asked;
	const char *name;
	json_t *value;

	json_object_foreach(settings, name, value)
	{
		const struct opt *row = drawing_row(name);
		char text[64];

		if (!row || !json_is_number(value))
			return err_set(e, EINVAL,
				"the setting '%.40s' is none that is kept, or "
				"no number",
				name);
		if (stands && opt_is_said(&asked, &drawing_table, row))
			continue;
		if (json_is_integer(value))
			snprintf(text, sizeof(text), "%lld",
				(long long)json_integer_value(value));
		else
			snprintf(text, sizeof(text), "%.17g",
				json_real_value(value));
		if (opt_set(drawing_tables, &v, name, text, e))
			return e->code;
	}
	asked = v;
	return 0;
}

static int load(struct chat *c, const char *path, bool stands, struct err *e)
{
	struct talk talk = { 0 };
	json_t *settings = NULL;
	int ret = talk_load(&talk, &settings, path, e);

	if (ret)
		return ret;
	ret = take_settings(settings, stands, e);
	json_decref(settings);
	if (ret) {
		talk_release(&talk);
		return err_in(e, "'%s'", path);
	}
	talk_release(&c->talk);
	c->talk = talk;
	return 0;
}

/* ---- commands ------------------------------------------------------------ */

static int do_system(struct chat *c, const char *text, struct err *e)
{
	if (c->plain)
		return err_set(e, ENOTSUP,
			"the model has no chat template that is known, so "
			"there is no system's turn");
	return talk_set_system(&c->talk, *text ? text : NULL, e);
}

static int do_reset(struct chat *c, const char *text, struct err *e)
{
	talk_reset(&c->talk);
	return 0;
}

static int need(const char *text, const char *what, struct err *e)
{
	return *text ? 0 : err_set(e, EINVAL, "%s is missing", what);
}

static int do_save(struct chat *c, const char *path, struct err *e)
{
	int ret = need(path, "the FILE to save to", e);

	return ret ? ret : save(c, path, e);
}

static int do_load(struct chat *c, const char *path, struct err *e)
{
	int ret = need(path, "the FILE to load", e);

	return ret ? ret : load(c, path, false, e);
}

static int do_set(struct chat *c, const char *text, struct err *e)
{
	int ret = need(text, "NAME=VALUE", e);

	return ret ? ret : set_option(c, text, e);
}

static int do_method(struct chat *c, const char *name, struct err *e)
{
	char text[128];

	if (!*name) {
		fprintf(stderr, "method %s\n", c->tandem->decoder.method->name);
		return 0;
	}
	snprintf(text, sizeof(text), "method=%s", name);
	return set_option(c, text, e);
}

static int do_stats(struct chat *c, const char *text, struct err *e)
{
	const struct tandem_result *r = &c->last;
	uint32_t room = session_context(c->tandem->decoder.session);
	uint64_t used = r->prompt_tokens + r->tokens;

	if (!c->turns) {
		fprintf(stderr,
			"no answer yet; the context has room for %u "
			"tokens\n",
			room);
		return 0;
	}
	fprintf(stderr,
		"prompt: %llu tokens, %llu cached, %llu computed\n"
		"answer: %llu tokens in %.2f s, the first after %.2f s; "
		"ended by %s\n",
		(unsigned long long)r->prompt_tokens,
		(unsigned long long)r->cached_tokens,
		(unsigned long long)(r->prompt_tokens - r->cached_tokens),
		(unsigned long long)r->tokens, r->seconds, r->seconds_to_first,
		stop_name(c));
	if (r->drafted)
		fprintf(stderr, "drafted: %llu, accepted %llu\n",
			(unsigned long long)r->drafted,
			(unsigned long long)r->accepted);
	fprintf(stderr, "context: %llu of %u tokens\n",
		(unsigned long long)used, room);
	if (r->phone_seconds > 0)
		fprintf(stderr, "phone: %.3f s, %.2f J\n", r->phone_seconds,
			r->phone_joules);
	return 0;
}

static int do_help(struct chat *c, const char *text, struct err *e);
static int do_quit(struct chat *c, const char *text, struct err *e);

static const struct {
	const char *name, *arg, *help;
	int (*run)(struct chat *, const char *text, struct err *);
} verbs[] = {
	{ "/system", "TEXT", "set the system's turn; without TEXT, none",
		do_system },
	{ "/reset", "", "begin anew; the system's turn stays", do_reset },
	{ "/save", "FILE", "write the conversation and settings as JSON",
		do_save },
	{ "/load", "FILE", "go on with one that was saved", do_load },
	{ "/stats", "", "what the last answer took", do_stats },
	{ "/method", "NAME", "decode by another method", do_method },
	{ "/set", "NAME=VALUE", "any option of tandem chat --help but --model",
		do_set },
	{ "/help", "", "this", do_help },
	{ "/quit", "", "end, as Ctrl-D does", do_quit },
};

static int do_help(struct chat *c, const char *text, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		fprintf(stderr, "%-8s %-10s  %s\n", verbs[i].name, verbs[i].arg,
			verbs[i].help);
	fputs("A turn that begins with a / is written with two. A line that "
	      "ends in a backslash goes\non with the next; a line of \"\"\" "
	      "begins a turn of several, and another ends it.\n",
		stderr);
	return 0;
}

#define QUIT 1

static int do_quit(struct chat *c, const char *text, struct err *e)
{
	return QUIT;
}

static int command(struct chat *c, const char *line, struct err *e)
{
	size_t len = strcspn(line, " \t");
	const char *rest = line + len + strspn(line + len, " \t");

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strlen(verbs[i].name) == len &&
			!strncmp(line, verbs[i].name, len))
			return verbs[i].run(c, rest, e);
	return err_set(e, EINVAL, "'%.*s' is no command; /help lists them",
		(int)(len > 40 ? 40 : len), line);
}

/* ---- the loop ------------------------------------------------------------ */

/* 0, QUIT, or -errno of what ends the program. */
static int take_line(struct chat *c, struct strbuf *line)
{
	const char *text = line->data ? line->data : "";
	struct err e = { 0 };
	int ret;

	if (line->failed) {
		ret = err_set(&e, ENOMEM, "no memory for a turn");
		say(&e);
		return ret;
	}
	if (!text[strspn(text, " \t\r\n")])
		return 0;
	if (text[0] == '/' && text[1] == '/') {
		memmove(line->data, line->data + 1, line->len--);
		ret = answer(c, line, &e);
	} else {
		ret = text[0] == '/' ? command(c, text, &e)
				     : answer(c, line, &e);
	}
	if (ret >= 0)
		return ret;
	c->failed = true;
	say(&e);
	return !c->tandem || c->tandem->dead || c->write_errno ? ret : 0;
}

static void greet(const struct chat *c)
{
	if (c->plain)
		cmd_warn("the model has no chat template that is known; it "
			 "goes on with the text as it is");
	if (!chat_input_is_terminal(c->input))
		return;
	fprintf(stderr, "%s, context %u tokens; /help lists commands\n",
		c->tandem->decoder.model_path,
		session_context(c->tandem->decoder.session));
}

/* Twice Ctrl-C at the prompt, with nothing between, is an end. */
static int talk_on(struct chat *c)
{
	struct strbuf line = STRBUF_INIT;
	bool asked_twice = false;
	int ret = 0;

	while (!ret) {
		enum chat_read got = chat_input_read(c->input, &line);

		if (got == CHAT_END)
			break;
		if (got == CHAT_INTERRUPTED) {
			if (asked_twice)
				break;
			asked_twice = true;
			fputs("Ctrl-C again, or Ctrl-D, ends\n", stderr);
			continue;
		}
		asked_twice = false;
		ret = take_line(c, &line);
		if (cmd_interrupted && !chat_input_is_terminal(c->input))
			break;
	}
	strbuf_release(&line);
	return ret < 0 ? ret : 0;
}

static int open_all(struct chat *c, struct err *e)
{
	int ret = start(c, e);

	if (!ret && load_path)
		ret = load(c, load_path, true, e);
	if (!ret && system_text)
		ret = do_system(c, system_text, e);
	return ret ? ret : chat_input_open(&c->input, !no_history, e);
}

static void chat_release(struct chat *c)
{
	chat_input_close(c->input);
	talk_release(&c->talk);
	strbuf_release(&c->text);
	free(c->tokens.id);
	for (size_t i = 0; i < c->n_set; i++)
		free(c->set[i]);
	free(c->set);
}

static int chat_main(int argc, char **argv)
{
	struct texts_options *texts = opt_values_at(&asked, &texts_table);
	struct chat c = { 0 };
	struct err e = { 0 }, closing = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_chat, argc, argv, &operands, &status))
		return status;
	/* What was computed of a turn is good for the next one. */
	texts->keep = 1;
	if (create(&c.tandem, &asked, &e))
		return cmd_refuse(&cmd_chat, &e);
	cmd_catch_signals();
	ret = open_all(&c, &e);
	if (ret) {
		say(&e);
	} else {
		greet(&c);
		ret = talk_on(&c);
	}
	status = ret == -ERR_DEVICE_LOST ? EXIT_LOST
		: ret || (c.failed && !chat_input_is_terminal(c.input))
		? EXIT_FAIL
		: EXIT_OK;
	if (stop(&c, &closing))
		status = cmd_fail(&closing);
	chat_release(&c);
	return status;
}

const struct command cmd_chat = { .usage = &usage, .run = chat_main };
