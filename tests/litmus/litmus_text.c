#include "tests/litmus/litmus.h"

#include "base/checked.h"
#include "base/err.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words of the format ------------------------------------------------- */

static const char *const op_name[LITMUS_OPS] = {
	[LITMUS_WRITE] = "write",
	[LITMUS_READ] = "read",
	[LITMUS_READ_DMA] = "dma",
	/* "dma WORD VALUE"; a read is "dma WORD -> REGISTER" */
	[LITMUS_WRITE_DMA] = "dma",
	[LITMUS_START] = "start",
	[LITMUS_WAIT] = "wait",
	[LITMUS_CLEAN] = "clean",
	[LITMUS_INVALIDATE] = "invalidate",
	[LITMUS_CLEAN_ALL] = "clean-all",
	[LITMUS_FLUSH_ALL] = "flush-all",
	[LITMUS_BEGIN] = "begin",
	[LITMUS_END] = "end",
	[LITMUS_HEED] = "heed",
	[LITMUS_SEND] = "send",
	[LITMUS_RECEIVE] = "receive",
	[LITMUS_COMPLETE] = "complete",
};

/* The agents that may have this step: one bit for each value of enum
 * litmus_agent. */
static const uint8_t op_of[LITMUS_OPS] = {
	[LITMUS_WRITE] = 3,
	[LITMUS_READ] = 3,
	[LITMUS_READ_DMA] = 6,
	[LITMUS_WRITE_DMA] = 6,
	[LITMUS_START] = 2,
	[LITMUS_WAIT] = 2,
	[LITMUS_CLEAN] = 2,
	[LITMUS_INVALIDATE] = 2,
	[LITMUS_CLEAN_ALL] = 2,
	[LITMUS_FLUSH_ALL] = 2,
	[LITMUS_BEGIN] = 1,
	[LITMUS_END] = 1,
	[LITMUS_HEED] = 2,
	[LITMUS_SEND] = 7,
	[LITMUS_RECEIVE] = 7,
	[LITMUS_COMPLETE] = 2,
};

static const char *const agent_kind[] = { "cpu", "device", "dma" };

static const char *const breach_name[LITMUS_BREACHES] = { "stale-read",
	"lost-cpu-write", "lost-device-write", "not-cleaned", "dma-over-dirty",
	"stale-dma", "lost-dma-write", "read-early", "write-early", "no-wait",
	"needless-wait", "cpu-early" };

static const char *const nature_name[LITMUS_NATURES] = { "none", "write-back",
	"fill", "drop", "drop-second", "transfer" };

/* ---- reading ------------------------------------------------------------- */

struct reader {
	struct litmus *t;
	struct err *e;
	/* `line`: number of the line of the text; `agent`: the agent whose
	 * steps are being read, or n_agents if no agent was named yet */
	unsigned line, agent;
	char *word[20];
	unsigned n;
};

static int fault(const struct reader *r, const char *what, const char *which)
{
	return err_set(r->e, EINVAL, "%s: line %u: %s '%s'",
		r->t->name[0] ? r->t->name : "litmus", r->line, what, which);
}

/* The index of a name, or n if it is not in the list. */
static unsigned find(char (*name)[8], unsigned n, const char *want)
{
	unsigned i = 0;

	while (i < n && strcmp(name[i], want))
		i++;
	return i;
}

/* Like find, but add the name if it is new. Returns cap if the list is full or
 * if the word is not a valid name. */
static unsigned find_or_add(
	char (*name)[8], unsigned *n, unsigned cap, const char *want)
{
	unsigned i = find(name, *n, want);

	if (i < *n)
		return i;
	if (*n == cap || strlen(want) >= 8 || !isalpha((unsigned char)*want))
		return cap;
	snprintf(name[(*n)++], 8, "%s", want);
	return i;
}

static bool read_value(const char *text, uint8_t *out)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (end == text || *end || v < 0 || v > 255)
		return false;
	*out = (uint8_t)v;
	return true;
}

/* Split "x=1" into "x" and 1. */
static bool split_value(char *word, uint8_t *value)
{
	char *equals = strchr(word, '=');

	if (!equals)
		return false;
	*equals = '\0';
	return read_value(equals + 1, value);
}

/* Read the names of new words of memory, which lie in cache line `line`. The
 * names are the words of the current line of the text from index `first` on. */
static int read_new_words(struct reader *r, unsigned first, unsigned line)
{
	struct litmus *t = r->t;

	for (unsigned i = first; i < r->n; i++) {
		unsigned w = t->n_words;

		if (find_or_add(t->word_name, &t->n_words, LITMUS_WORDS,
			    r->word[i]) != w ||
			w == LITMUS_WORDS)
			return fault(r, "no new word", r->word[i]);
		t->word_line[w] = (uint8_t)line;
	}
	return 0;
}

static int read_line_of_words(struct reader *r)
{
	struct litmus *t = r->t;
	unsigned line = t->n_lines;

	if (r->n < 3 ||
		find_or_add(t->line_name, &t->n_lines, LITMUS_LINES,
			r->word[1]) != line)
		return fault(r, "no new line of words", r->word[r->n - 1]);
	return read_new_words(r, 2, line);
}

/* Find a word by its name, in local memory if `local` is set, else in memory.
 * Returns n_words if there is no such word. */
static unsigned find_word(struct litmus *t, const char *name, bool local)
{
	unsigned w = find(t->word_name, t->n_words, name);

	if (w < t->n_words && (t->word_line[w] == LITMUS_NO_LINE) != local)
		return t->n_words;
	return w;
}

/* "transfer NAME FROM -> TO" */
static int read_transfer(struct reader *r)
{
	struct litmus *t = r->t;
	unsigned n = t->n_transfers;
	struct litmus_transfer *d = &t->transfer[n];
	unsigned from, to;
	bool to_memory;

	if (r->n != 5 || strcmp(r->word[3], "->") != 0 ||
		find_or_add(t->transfer_name, &t->n_transfers, LITMUS_TRANSFERS,
			r->word[1]) != n ||
		n == LITMUS_TRANSFERS)
		return fault(r, "not transfer NEW_NAME FROM -> TO at",
			r->word[r->n - 1]);
	to_memory = find_word(t, r->word[2], true) < t->n_words;
	from = find_word(t, r->word[2], to_memory);
	to = find_word(t, r->word[4], !to_memory);
	if (from == t->n_words || to == t->n_words)
		return fault(r, "not from memory to local memory or back:",
			r->word[r->n - 1]);
	*d = (struct litmus_transfer){
		.memory = (uint8_t)(to_memory ? to : from),
		.local = (uint8_t)(to_memory ? from : to),
		.to_memory = to_memory,
		.before = LITMUS_TRANSFERS,
	};
	return 0;
}

static int read_init(struct reader *r)
{
	struct litmus *t = r->t;

	for (unsigned i = 1; i < r->n; i++) {
		uint8_t value;
		unsigned w;

		if (!split_value(r->word[i], &value))
			return fault(r, "no value in", r->word[i]);
		w = find(t->word_name, t->n_words, r->word[i]);
		if (w == t->n_words)
			return fault(r, "no word", r->word[i]);
		t->init[w] = value;
	}
	return 0;
}

/* Read a set of names: bit i for name i. The word `none` stands for the empty
 * set. */
static int read_flags(struct reader *r, const char *const *name, unsigned n,
	const char *none, unsigned *out)
{
	*out = 0;
	for (unsigned i = 1; i < r->n; i++) {
		unsigned k = 0;

		if (!strcmp(r->word[i], none))
			continue;
		while (k < n && strcmp(name[k], r->word[i]))
			k++;
		if (k == n)
			return fault(r, "unknown", r->word[i]);
		*out |= 1u << k;
	}
	return 0;
}

static unsigned find_result(const struct litmus *t, const char *name)
{
	for (unsigned i = 0; i < t->n_regs; i++)
		if (!strcmp(t->reg_name[i], name))
			return i;
	for (unsigned i = 0; i < t->n_words; i++)
		if (!strcmp(t->word_name[i], name))
			return LITMUS_REGS + i;
	return LITMUS_RESULTS;
}

/* Read an outcome. All outcomes of a test must name the same results, so the
 * first outcome determines which results are compared. */
static int read_outcome(
	struct reader *r, struct litmus_outcome *list, unsigned *n)
{
	struct litmus *t = r->t;
	struct litmus_outcome *o = &list[*n];
	bool first = t->n_allowed + t->n_forbidden == 0;
	bool named[LITMUS_RESULTS] = { false };

	if (*n == LITMUS_OUTCOMES)
		return fault(r, "too many", r->word[0]);
	for (unsigned i = 1; i < r->n; i++) {
		uint8_t value;
		unsigned k;

		if (!split_value(r->word[i], &value))
			return fault(r, "no value in", r->word[i]);
		k = find_result(t, r->word[i]);
		if (k == LITMUS_RESULTS)
			return fault(r, "no register or word", r->word[i]);
		named[k] = true;
		o->value[k] = value;
	}
	if (first)
		memcpy(t->named, named, sizeof(named));
	else if (memcmp(t->named, named, sizeof(named)) != 0)
		return fault(r, "other names than the first in", r->word[0]);
	++*n;
	return 0;
}

static int read_head(struct reader *r)
{
	struct litmus *t = r->t;
	const char *key = r->word[0];

	if (!strcmp(key, "litmus") && r->n == 2 &&
		strlen(r->word[1]) < sizeof(t->name)) {
		snprintf(t->name, sizeof(t->name), "%s", r->word[1]);
		return 0;
	}
	if (!strcmp(key, "contract") && r->n == 2 &&
		(!strcmp(r->word[1], "1") || !strcmp(r->word[1], "2"))) {
		t->contract = (unsigned)(r->word[1][0] - '0');
		return 0;
	}
	if (!strcmp(key, "line"))
		return read_line_of_words(r);
	if (!strcmp(key, "local"))
		return read_new_words(r, 1, LITMUS_NO_LINE);
	if (!strcmp(key, "transfer"))
		return read_transfer(r);
	if (!strcmp(key, "init"))
		return read_init(r);
	if (!strcmp(key, "nature"))
		return read_flags(r, nature_name, ARRAY_LEN(nature_name),
			"none", &t->nature);
	if (!strcmp(key, "breaks"))
		return read_flags(r, breach_name, LITMUS_BREACHES, "nothing",
			&t->breaches);
	if (!strcmp(key, "allowed"))
		return read_outcome(r, t->allowed, &t->n_allowed);
	if (!strcmp(key, "forbidden"))
		return read_outcome(r, t->forbidden, &t->n_forbidden);
	return fault(r, "unknown", key);
}

/* ---- reading: agents and steps ------------------------------------------- */

static int read_agent(struct reader *r, const char *name)
{
	struct litmus *t = r->t;
	size_t stem = strcspn(name, "0123456789");

	if (t->n_agents == LITMUS_AGENTS || strlen(name) >= 8)
		return fault(r, "too many agents, or too long", name);
	for (unsigned k = 0; k < ARRAY_LEN(agent_kind); k++)
		if (strlen(agent_kind[k]) == stem &&
			!strncmp(agent_kind[k], name, stem)) {
			r->agent = t->n_agents++;
			t->kind[r->agent] = (enum litmus_agent)k;
			snprintf(t->agent_name[r->agent], 8, "%s", name);
			return 0;
		}
	return fault(r, "an agent is cpu, device or dma, not", name);
}

static unsigned read_op(const struct reader *r)
{
	enum litmus_agent kind = r->t->kind[r->agent];
	unsigned op = 0;

	while (op < LITMUS_OPS && strcmp(op_name[op], r->word[0]))
		op++;
	if (op == LITMUS_OPS || !(op_of[op] >> kind & 1))
		return LITMUS_OPS;
	if (op == LITMUS_READ_DMA && r->n == 3)
		return LITMUS_WRITE_DMA;
	return op;
}

static int read_place(struct reader *r, struct litmus_step *s, bool line_too)
{
	struct litmus *t = r->t;
	const char *name = r->n > 1 ? r->word[1] : "";
	bool local = t->kind[r->agent] == LITMUS_DEVICE &&
		(s->op == LITMUS_READ || s->op == LITMUS_WRITE) &&
		find_word(t, name, true) < t->n_words;
	unsigned w = find_word(t, name, local);
	unsigned l = find(t->line_name, t->n_lines, name);

	if (w < t->n_words) {
		s->word = (uint8_t)w;
		s->line = t->word_line[w];
		return 0;
	}
	if (l == t->n_lines || !line_too)
		return fault(r, "no word or line", name);
	s->line = (uint8_t)l;
	s->whole = true;
	return 0;
}

static int read_register(struct reader *r, struct litmus_step *s)
{
	struct litmus *t = r->t;
	unsigned before = t->n_regs;

	if (r->n != 4 || strcmp(r->word[2], "->") != 0 ||
		find_result(t, r->word[3]) != LITMUS_RESULTS ||
		find_or_add(t->reg_name, &t->n_regs, LITMUS_REGS, r->word[3]) !=
			before ||
		before == LITMUS_REGS)
		return fault(r, "not read WORD -> NEW_REGISTER at",
			r->word[r->n - 1]);
	s->reg = (uint8_t)before;
	return 0;
}

static int read_channel(struct reader *r, struct litmus_step *s)
{
	struct litmus *t = r->t;
	unsigned c = LITMUS_CHANNELS;

	if (r->n == 2)
		c = find_or_add(t->channel_name, &t->n_channels,
			LITMUS_CHANNELS, r->word[1]);
	if (c == LITMUS_CHANNELS)
		return fault(r, "no room for a channel at", r->word[r->n - 1]);
	s->channel = (uint8_t)c;
	return 0;
}

/* Read the transfers of a `start` step, or the transfer of a `wait` step. */
static int read_transfers(struct reader *r, struct litmus_step *s)
{
	struct litmus *t = r->t;
	bool start = s->op == LITMUS_START;
	unsigned before = LITMUS_TRANSFERS;

	if (r->n < 2 || (!start && r->n > 2))
		return fault(r, "no transfer, or too many:", r->word[0]);
	for (unsigned i = 1; i < r->n; i++) {
		unsigned k = find(t->transfer_name, t->n_transfers, r->word[i]);

		if (k == t->n_transfers || t->transfer[k].started == start)
			return fault(r,
				start ? "no transfer, or started twice:"
				      : "no transfer that was started:",
				r->word[i]);
		s->transfer[s->n_transfers++] = (uint8_t)k;
		if (!start)
			break;
		t->transfer[k].started = true;
		t->transfer[k].before = (uint8_t)before;
		before = k;
	}
	return 0;
}

static int read_operands(struct reader *r, struct litmus_step *s)
{
	int ret;

	switch (s->op) {
	case LITMUS_HEED:
	case LITMUS_CLEAN_ALL:
	case LITMUS_FLUSH_ALL:
		return 0;
	case LITMUS_START:
	case LITMUS_WAIT:
		return read_transfers(r, s);
	case LITMUS_SEND:
	case LITMUS_RECEIVE:
	case LITMUS_COMPLETE:
		return read_channel(r, s);
	case LITMUS_READ:
	case LITMUS_READ_DMA:
		ret = read_place(r, s, false);
		return ret ? ret : read_register(r, s);
	case LITMUS_WRITE:
	case LITMUS_WRITE_DMA:
		ret = read_place(r, s, s->op == LITMUS_WRITE);
		if (!ret && (r->n != 3 || !read_value(r->word[2], &s->value)))
			ret = fault(r, "no value at", r->word[r->n - 1]);
		return ret;
	default:
		return read_place(r, s, true);
	}
}

static int read_step(struct reader *r)
{
	struct litmus *t = r->t;
	struct litmus_step s = { 0 };
	unsigned op = read_op(r);
	int ret;

	if (op == LITMUS_OPS)
		return fault(r, "no step of this agent:", r->word[0]);
	if (t->n_steps[r->agent] == LITMUS_STEPS)
		return fault(r, "too many steps:", r->word[0]);
	s.op = (enum litmus_op)op;
	ret = read_operands(r, &s);
	t->step[r->agent][t->n_steps[r->agent]++] = s;
	return ret;
}

/* ---- checks of the whole test -------------------------------------------- */

static unsigned count_channel(
	const struct litmus *t, unsigned channel, bool receives)
{
	unsigned n = 0;

	for (unsigned a = 0; a < t->n_agents; a++)
		for (unsigned i = 0; i < t->n_steps[a]; i++) {
			const struct litmus_step *s = &t->step[a][i];

			n += s->channel == channel &&
				(receives ? s->op == LITMUS_RECEIVE
					  : s->op == LITMUS_SEND ||
							s->op ==
								LITMUS_COMPLETE);
		}
	return n;
}

/* Whether a step writes a value that an earlier step already writes to the same
 * word. A step that reads the word could not distinguish the two writes. */
static bool writes_again(
	const struct litmus *t, bool (*seen)[256], const struct litmus_step *s)
{
	bool again = false;

	for (unsigned w = 0; w < t->n_words; w++)
		if (s->whole ? t->word_line[w] == s->line : w == s->word) {
			again |= seen[w][s->value];
			seen[w][s->value] = true;
		}
	return again;
}

static int check_whole(const struct reader *r)
{
	const struct litmus *t = r->t;
	bool seen[LITMUS_WORDS][256] = { { false } };

	if (!t->name[0] || !t->n_words || !t->n_agents)
		return fault(r, "a name, a line and an agent are wanted in",
			t->name);
	for (unsigned c = 0; c < t->n_channels; c++)
		if (count_channel(t, c, false) > LITMUS_MESSAGES ||
			count_channel(t, c, true) > count_channel(t, c, false))
			return fault(r, "too many messages through",
				t->channel_name[c]);
	for (unsigned w = 0; w < t->n_words; w++)
		seen[w][t->init[w]] = true;
	for (unsigned a = 0; a < t->n_agents; a++)
		for (unsigned i = 0; i < t->n_steps[a]; i++)
			if ((t->step[a][i].op == LITMUS_WRITE ||
				    t->step[a][i].op == LITMUS_WRITE_DMA) &&
				writes_again(t, seen, &t->step[a][i]))
				return fault(r, "a value written twice by",
					t->agent_name[a]);
	return 0;
}

/* ---- lines --------------------------------------------------------------- */

static int read_words(struct reader *r, bool indented)
{
	size_t n = strlen(r->word[0]);

	if (indented)
		return r->agent < r->t->n_agents
			? read_step(r)
			: fault(r, "a step without an agent:", r->word[0]);
	if (r->word[0][n - 1] != ':')
		return read_head(r);
	r->word[0][n - 1] = '\0';
	return read_agent(r, r->word[0]);
}

static int read_line(struct reader *r, char *line)
{
	bool indented = isspace((unsigned char)line[0]);
	char *rest = NULL;

	line[strcspn(line, "#")] = '\0';
	r->n = 0;
	for (char *w = strtok_r(line, " \t", &rest); w;
		w = strtok_r(NULL, " \t", &rest)) {
		if (r->n == ARRAY_LEN(r->word))
			return fault(r, "too long from", w);
		r->word[r->n++] = w;
	}
	return r->n ? read_words(r, indented) : 0;
}

int litmus_parse(struct litmus *t, const char *text, struct err *e)
{
	struct reader r = { .t = t, .e = e, .agent = LITMUS_AGENTS };
	char line[256];
	int ret = 0;

	memset(t, 0, sizeof(*t));
	t->contract = 1;
	t->nature = LITMUS_NATURE_ALL;
	while (!ret && *text) {
		size_t n = strcspn(text, "\n");

		r.line++;
		if (n >= sizeof(line))
			return fault(&r, "too long:", "a line");
		memcpy(line, text, n);
		line[n] = '\0';
		ret = read_line(&r, line);
		text += n + (text[n] == '\n');
	}
	return ret ? ret : check_whole(&r);
}

/* ---- writing ------------------------------------------------------------- */

struct writer {
	char *text;
	size_t at, size;
};

static void put(struct writer *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void put(struct writer *w, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(w->text + w->at, w->size - w->at, fmt, ap);
	va_end(ap);
	w->at += n < 0 ? 0 : (size_t)n;
	if (w->at >= w->size)
		w->at = w->size - 1;
}

static void put_flags(struct writer *w, unsigned flags, const char *const *name,
	unsigned n, const char *none)
{
	if (!flags)
		put(w, " %s", none);
	for (unsigned i = 0; i < n; i++)
		if (flags >> i & 1)
			put(w, " %s", name[i]);
}

static void put_step(
	struct writer *w, const struct litmus *t, const struct litmus_step *s)
{
	const char *place =
		s->whole ? t->line_name[s->line] : t->word_name[s->word];

	put(w, "\t%s", op_name[s->op]);
	switch (s->op) {
	case LITMUS_HEED:
	case LITMUS_CLEAN_ALL:
	case LITMUS_FLUSH_ALL:
		break;
	case LITMUS_START:
	case LITMUS_WAIT:
		for (unsigned i = 0; i < s->n_transfers; i++)
			put(w, " %s", t->transfer_name[s->transfer[i]]);
		break;
	case LITMUS_SEND:
	case LITMUS_RECEIVE:
	case LITMUS_COMPLETE:
		put(w, " %s", t->channel_name[s->channel]);
		break;
	case LITMUS_READ:
	case LITMUS_READ_DMA:
		put(w, " %s -> %s", place, t->reg_name[s->reg]);
		break;
	case LITMUS_WRITE:
	case LITMUS_WRITE_DMA:
		put(w, " %s %u", place, s->value);
		break;
	default:
		put(w, " %s", place);
	}
	put(w, "\n");
}

static const char *result_name(const struct litmus *t, unsigned i)
{
	return i < LITMUS_REGS ? t->reg_name[i] : t->word_name[i - LITMUS_REGS];
}

static void put_outcome(struct writer *w, const struct litmus *t,
	const struct litmus_outcome *o)
{
	for (unsigned i = 0; i < LITMUS_RESULTS; i++)
		if (t->named[i])
			put(w, " %s=%u", result_name(t, i), o->value[i]);
}

void litmus_print_outcome(const struct litmus *t,
	const struct litmus_outcome *o, char *text, size_t size)
{
	struct writer w = { .text = text, .size = size };

	text[0] = '\0';
	put_outcome(&w, t, o);
}

void litmus_print_breaches(unsigned breaches, char *text, size_t size)
{
	struct writer w = { .text = text, .size = size };

	put_flags(&w, breaches, breach_name, LITMUS_BREACHES, "nothing");
}

static void put_head(struct writer *w, const struct litmus *t)
{
	put(w, "litmus %s\ncontract %u\n", t->name, t->contract);
	for (unsigned l = 0; l < t->n_lines; l++) {
		put(w, "line %s", t->line_name[l]);
		for (unsigned i = 0; i < t->n_words; i++)
			if (t->word_line[i] == l)
				put(w, " %s", t->word_name[i]);
		put(w, "\n");
	}
	for (unsigned i = 0; i < t->n_words; i++)
		if (t->word_line[i] == LITMUS_NO_LINE)
			put(w, "local %s\n", t->word_name[i]);
	for (unsigned i = 0; i < t->n_transfers; i++) {
		const struct litmus_transfer *d = &t->transfer[i];

		put(w, "transfer %s %s -> %s\n", t->transfer_name[i],
			t->word_name[d->to_memory ? d->local : d->memory],
			t->word_name[d->to_memory ? d->memory : d->local]);
	}
	put(w, "init");
	for (unsigned i = 0; i < t->n_words; i++)
		put(w, " %s=%u", t->word_name[i], t->init[i]);
	put(w, "\nnature");
	put_flags(w, t->nature, nature_name, ARRAY_LEN(nature_name), "none");
	put(w, "\n");
}

size_t litmus_print(const struct litmus *t, char text[LITMUS_TEXT])
{
	struct writer w = { .text = text, .size = LITMUS_TEXT };

	put_head(&w, t);
	for (unsigned a = 0; a < t->n_agents; a++) {
		put(&w, "%s:\n", t->agent_name[a]);
		for (unsigned i = 0; i < t->n_steps[a]; i++)
			put_step(&w, t, &t->step[a][i]);
	}
	put(&w, "breaks");
	put_flags(&w, t->breaches, breach_name, LITMUS_BREACHES, "nothing");
	put(&w, "\n");
	for (unsigned i = 0; i < t->n_allowed; i++) {
		put(&w, "allowed");
		put_outcome(&w, t, &t->allowed[i]);
		put(&w, "\n");
	}
	for (unsigned i = 0; i < t->n_forbidden; i++) {
		put(&w, "forbidden");
		put_outcome(&w, t, &t->forbidden[i]);
		put(&w, "\n");
	}
	return w.at;
}
