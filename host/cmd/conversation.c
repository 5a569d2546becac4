#include "host/cmd/conversation.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/cmd/cmd.h"
#include "host/cmd/json_text.h"
#include "host/model/model.h"
#include "host/text/chat.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sampling options ---------------------------------------------------- */

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
		"generate at most N tokens per answer (-1: until the answer "
		"ends or the context is full)", -1, INT32_MAX },
	{ OPT_FLOAT, 0, "temp", IN(temperature), "T",
		"temperature (0: greedy)",
		0, 1000 },
	SAMPLING_ROWS(IN, 0.0001),
};
#undef IN
/* clang-format on */

static const struct opt_table drawing_table = { "sampling", drawing_rows,
	ARRAY_LEN(drawing_rows), &drawing_defaults, sizeof(struct drawing) };

const struct opt_table *drawing_tables(size_t i)
{
	return i ? NULL : &drawing_table;
}

/* ---- opening ------------------------------------------------------------- */

int conversation_start(struct conversation *c, struct err *e)
{
	struct tandem_report r;
	enum chat_family family;

	if (tandem_read_model(c->tandem, c->model_path) ||
		tandem_start(c->tandem, 0))
		return tandem_failure(c->tandem, e);
	tandem_report(c->tandem, &r);
	family = chat_of(r.model->gguf);
	c->plain = family == CHAT_NONE || family == CHAT_UNKNOWN;
	c->room = r.context;
	c->tokenizer = r.tokenizer;
	return 0;
}

int conversation_stop(struct conversation *c, struct err *e)
{
	int ret = c->tandem ? tandem_end(c->tandem, e) : 0;

	c->tandem = NULL;
	return ret;
}

void conversation_release(struct conversation *c)
{
	talk_release(&c->talk);
	strbuf_release(&c->text);
	free(c->tokens.id);
	for (size_t i = 0; i < c->n_set; i++)
		free(c->set[i]);
	free(c->set);
}

/* ---- a turn -------------------------------------------------------------- */

static int append_text(void *arg, int32_t id, const char *text, size_t len)
{
	struct conversation *c = arg;

	strbuf_add(&c->text, text, len);
	if (id >= 0 && token_list_add(&c->tokens, id))
		c->text.failed = true;
	if (c->text.failed)
		return -ENOMEM;
	if (c->as_json || !len)
		return 0;
	c->newline_due = text[len - 1] != '\n';
	fwrite(text, 1, len, stdout);
	if (fflush(stdout) || ferror(stdout))
		c->write_errno = errno ? errno : EIO;
	return -c->write_errno;
}

static void fill_request(struct conversation *c, struct tandem_request *q)
{
	const struct drawing *d = opt_values_of(c->values, &drawing_table);

	tandem_request_init(q, sizeof(*q));
	q->max_tokens = d->predict;
	q->temperature = d->temperature;
	q->top_k = (uint32_t)d->top_k;
	q->top_p = d->top_p;
	q->min_p = d->min_p;
	q->repeat_penalty = d->repeat_penalty;
	q->repeat_last = (uint32_t)d->repeat_last;
	q->seed = (uint64_t)d->seed;
	q->sink = append_text;
	q->sink_arg = c;
}

static int read_prompt(
	struct conversation *c, struct token_list *out, struct err *e)
{
	struct tandem_request q;
	struct tandem_turn *turns;
	int ret;

	if (c->plain) {
		/* Without a chat template, concatenate the tokens of all turns.
		 * For an answer, add the generated tokens instead of tokenizing
		 * its text, so that each prompt begins with exactly the tokens
		 * of the previous prompt and answer. */
		ret = 0;
		for (size_t i = 0; i < c->talk.n && !ret; i++) {
			const struct talk_turn *t = &c->talk.turn[i];
			size_t n = t->n_tokens;

			if (n &&
				tokenizer_is_eog(
					c->tokenizer, t->tokens[n - 1]))
				n--;
			for (size_t k = 0; k < n && !ret; k++)
				ret = token_list_add(out, t->tokens[k]);
			if (!t->tokens)
				ret = tokenize(c->tokenizer, t->text, t->bytes,
					i ? TOKENIZE_GOES_ON : 0, NULL, 0, out,
					e);
		}
		if (ret == -ENOMEM)
			return err_set(e, ENOMEM, "no memory for the prompt");
		return ret ? ret : tandem_add_bos(c->tandem, out, e);
	}
	turns = talk_turns(&c->talk);
	if (!turns)
		return err_set(e, ENOMEM,
			"no memory for all turns of the conversation");
	fill_request(c, &q);
	q.flags = TANDEM_CHAT;
	q.turns = turns;
	q.n_turns = c->talk.n;
	ret = tandem_prompt_tokens(c->tandem, &q, &out->id, &out->n, e);
	free(turns);
	return ret;
}

static int generate(
	struct conversation *c, const struct token_list *prompt, struct err *e)
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
	if (c->newline_due || (!c->as_json && !c->text.len && !ret)) {
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
	return ret ? tandem_failure(c->tandem, e) : 0;
}

/* Return the name of the reason why the most recent answer ended. */
static const char *stop_name(const struct conversation *c)
{
	static const char *const names[] = { "interrupted", "eos", "stop",
		"length", "context", "error" };

	return names[c->last.stop];
}

int conversation_answer(
	struct conversation *c, const struct strbuf *turn, struct err *e)
{
	struct token_list prompt = { 0 };
	const char *answer;
	int ret = talk_add(&c->talk, "user", turn->data ? turn->data : "",
		turn->len, NULL, e);

	if (ret)
		return ret;
	ret = read_prompt(c, &prompt, e);
	if (!ret && prompt.n >= c->room)
		ret = err_set(e, EFBIG,
			"with this turn the conversation has %zu tokens, and "
			"the context has room for %u; nothing was dropped: "
			"/reset begins a new conversation, /save FILE saves "
			"this one",
			prompt.n, c->room);
	if (!ret)
		ret = generate(c, &prompt, e);
	answer = c->text.data ? c->text.data : "";
	if (!ret)
		ret = talk_add(&c->talk, "assistant", answer, c->text.len,
			&c->tokens, e);
	free(prompt.id);
	if (ret) {
		talk_cut(&c->talk, c->talk.n - 1);
		return ret;
	}
	c->turns++;
	if (c->last.stop == TANDEM_STOP_CONTEXT)
		cmd_warn("the context of %u tokens is full: %llu of the "
			 "conversation, %llu of this answer, which was cut; "
			 "/reset begins a new conversation, /save FILE saves "
			 "this one",
			c->room, (unsigned long long)c->last.prompt_tokens,
			(unsigned long long)c->last.tokens);
	if (c->as_json &&
		(json_print(json_pack("{sisisosssIsIsIsf}", "version", 1,
				    "turn", (int)c->turns, "text",
				    json_text((struct gguf_str){
					    answer, c->text.len }),
				    "stop", stop_name(c), "prompt_tokens",
				    (json_int_t)c->last.prompt_tokens,
				    "cached_tokens",
				    (json_int_t)c->last.cached_tokens, "tokens",
				    (json_int_t)c->last.tokens, "time_s",
				    c->last.seconds),
			 0, stdout) ||
			fflush(stdout)))
		return err_sys(e, errno ? errno : EIO,
			"cannot write to standard output");
	return 0;
}

/* ---- settings ------------------------------------------------------------ */

/* Return table i of the options for /set: sampling options, then the decoder's
 * options (see opt_tables). */
static const struct opt_table *chat_tables(size_t i)
{
	return i ? decoder_tables(i - 1) : &drawing_table;
}

static const struct opt *drawing_row(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(drawing_rows); i++)
		if (!strcmp(drawing_rows[i].name, name))
			return &drawing_rows[i];
	return NULL;
}

/* Set an option by "name=value", or a flag by "name". A sampling option changes
 * at once; for any other option the model is opened again. Returns 0 or a
 * negative errno. */
static int set_option(
	struct conversation *c, const char *setting, struct err *e)
{
	struct opt_values v = *c->values;
	char **set = reallocarray(c->set, c->n_set + 1, sizeof(*set));
	char *name = strdup(setting), *value;
	int ret;

	if (set)
		c->set = set;
	if (!set || !name) {
		free(name);
		return err_set(e, ENOMEM, "no memory for an option");
	}
	/* The option values point into this copy of the text, so keep it until
	 * the conversation is released. */
	c->set[c->n_set++] = name;
	value = strchr(name, '=');
	if (value)
		*value++ = '\0';
	ret = opt_set(chat_tables, &v, name, value, e);
	if (ret)
		return ret;
	if (!drawing_row(name)) {
		/* Open the model again with the option values `v`. If these are
		 * invalid, nothing changes. */
		struct tandem *new;
		struct err again = { 0 };

		ret = cmd_create(&new, &v, e);
		if (ret)
			return ret;
		if (conversation_stop(c, e))
			cmd_warn("%s", e->text);
		c->tandem = new;
		ret = conversation_start(c, e);
		if (!ret) {
			*c->values = v;
			return 0;
		}
		/* The model cannot be opened with the new values, so go back to
		 * the old values. If the old values fail too, the program
		 * ends. */
		conversation_stop(c, &again);
		ret = cmd_create(&c->tandem, c->values, &again);
		if (!ret)
			ret = conversation_start(c, &again);
		if (!ret)
			return e->code;
		cmd_fail(e);
		*e = again;
		conversation_stop(c, &again);
		return ret;
	}
	*c->values = v;
	return 0;
}

int conversation_set_system(
	struct conversation *c, const char *text, struct err *e)
{
	if (c->plain)
		return err_set(e, ENOTSUP,
			"the model has no known chat template, so a system "
			"turn cannot be set");
	return talk_set_system(&c->talk, *text ? text : NULL, e);
}

/* ---- files --------------------------------------------------------------- */

static int save(struct conversation *c, const char *path, struct err *e)
{
	const struct drawing *d = opt_values_of(c->values, &drawing_table);
	json_t *settings = json_pack("{sIsIsIsIsfsfsf}", "predict",
		(json_int_t)d->predict, "top-k", (json_int_t)d->top_k,
		"repeat-last", (json_int_t)d->repeat_last, "seed",
		(json_int_t)d->seed, "top-p", d->top_p, "min-p", d->min_p,
		"repeat-penalty", d->repeat_penalty);
	int ret;

	if (settings && !isnan(d->temperature))
		put_real(settings, "temp", d->temperature);
	ret = settings ? talk_save(&c->talk, settings, path, e)
		       : err_set(e, ENOMEM, "no memory for the settings");
	json_decref(settings);
	return ret;
}

/* Apply all settings, or no setting if any setting is invalid. If `stands` is
 * true, options that were given on the command line keep their values. Returns
 * 0 or a negative errno. */
static int take_settings(
	struct conversation *c, json_t *settings, bool stands, struct err *e)
{
	struct opt_values v = *c->values;
	const char *name;
	json_t *value;

	json_object_foreach(settings, name, value)
	{
		const struct opt *row = drawing_row(name);
		char text[64];

		if (!row || !json_is_number(value))
			return err_set(e, EINVAL,
				"the setting '%.40s' is unknown, or its value "
				"is not a number",
				name);
		if (stands && opt_is_set(c->values, &drawing_table, row))
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
	*c->values = v;
	return 0;
}

int conversation_load(
	struct conversation *c, const char *path, bool stands, struct err *e)
{
	struct talk talk = { 0 };
	json_t *settings = NULL;
	int ret = talk_load(&talk, &settings, path, e);

	if (ret)
		return ret;
	ret = take_settings(c, settings, stands, e);
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

static int do_reset(struct conversation *c, const char *text, struct err *e)
{
	talk_reset(&c->talk);
	return 0;
}

static int do_load(struct conversation *c, const char *path, struct err *e)
{
	return conversation_load(c, path, false, e);
}

static int do_method(struct conversation *c, const char *name, struct err *e)
{
	struct tandem_report r;
	char text[128];

	if (!*name) {
		tandem_report(c->tandem, &r);
		fprintf(stderr, "method %s\n", r.method);
		return 0;
	}
	snprintf(text, sizeof(text), "method=%s", name);
	return set_option(c, text, e);
}

static int do_stats(struct conversation *c, const char *text, struct err *e)
{
	const struct tandem_result *r = &c->last;
	uint64_t used = r->prompt_tokens + r->tokens;

	if (!c->turns) {
		fprintf(stderr,
			"no answer yet; the context has room for %u "
			"tokens\n",
			c->room);
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
		(unsigned long long)used, c->room);
	if (r->phone_seconds > 0)
		fprintf(stderr, "phone: %.3f s, %.2f J\n", r->phone_seconds,
			r->phone_joules);
	return 0;
}

static int do_quit(struct conversation *c, const char *text, struct err *e)
{
	return CONVERSATION_QUIT;
}

static int do_help(struct conversation *c, const char *text, struct err *e);

static const struct {
	const char *name, *arg, *help;
	/* name of a required argument; NULL if none is required */
	const char *needs;
	int (*run)(struct conversation *, const char *text, struct err *);
} verbs[] = {
	{ "/system", "TEXT", "set the system turn; without TEXT, remove it",
		NULL, conversation_set_system },
	{ "/reset", "", "begin a new conversation; the system turn stays", NULL,
		do_reset },
	{ "/save", "FILE", "write the conversation and settings as JSON",
		"the FILE to save to", save },
	{ "/load", "FILE", "continue a saved conversation", "the FILE to load",
		do_load },
	{ "/stats", "", "show tokens and time of the last answer", NULL,
		do_stats },
	{ "/method", "NAME",
		"set the decoding method; without NAME, show "
		"it",
		NULL, do_method },
	{ "/set", "NAME=VALUE",
		"set any option of tandem chat --help except "
		"--model",
		"NAME=VALUE", set_option },
	{ "/help", "", "this", NULL, do_help },
	{ "/quit", "", "exit, as Ctrl-D does", NULL, do_quit },
};

static int do_help(struct conversation *c, const char *text, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		fprintf(stderr, "%-8s %-10s  %s\n", verbs[i].name, verbs[i].arg,
			verbs[i].help);
	fputs("To send a turn that begins with /, begin it with //. A line "
	      "that ends in a backslash\ncontinues on the next line. \"\"\" on "
	      "a line begins and ends a turn of several lines.\n",
		stderr);
	return 0;
}

int conversation_command(
	struct conversation *c, const char *line, struct err *e)
{
	size_t len = strcspn(line, " \t");
	const char *rest = line + len + strspn(line + len, " \t");

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (strlen(verbs[i].name) != len ||
			strncmp(line, verbs[i].name, len))
			continue;
		if (verbs[i].needs && !*rest)
			return err_set(
				e, EINVAL, "%s is missing", verbs[i].needs);
		return verbs[i].run(c, rest, e);
	}
	return err_set(e, EINVAL, "there is no command '%.*s'; /help lists all",
		(int)(len > 40 ? 40 : len), line);
}
