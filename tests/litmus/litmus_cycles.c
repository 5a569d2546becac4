#include "tests/litmus/litmus.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EDGES_MAX 8

/* ---- edges and events ---------------------------------------------------- */

enum edge {
	/* a write, and a read of its value by the other processor (CPU or
	 * device) */
	EDGE_RF,
	EDGE_FR, /* a read, and a later write by the other processor */
	EDGE_WS, /* a write, and a later write by the other processor */
	/* these three edges stay on one processor, in program order */
	EDGE_SAME_WORD,
	EDGE_SAME_LINE,
	EDGE_OTHER_LINE,
	EDGES
};

static const char *const edge_name[EDGES] = {
	[EDGE_RF] = "rf",
	[EDGE_FR] = "fr",
	[EDGE_WS] = "ws",
	[EDGE_SAME_WORD] = "pw",
	[EDGE_SAME_LINE] = "pl",
	[EDGE_OTHER_LINE] = "po",
};

static bool crosses(enum edge e)
{
	return e <= EDGE_WS;
}

static bool begins_with_write(enum edge e)
{
	return e != EDGE_FR;
}

static bool ends_with_write(enum edge e)
{
	return e != EDGE_RF;
}

/* The cache maintenance that the device does for an event, and how the event
 * accesses memory. */
enum {
	/* invalidate the line; with contract 2 flush the whole cache */
	FIRST_INVALIDATE = 1,
	/* clean the line after a write; with contract 2 the whole cache */
	THEN_CLEAN = 2,
	/* access by DMA, not through the cache, so without THEN_CLEAN */
	BY_DMA = 4,
	CARES = 6
};

/* An event is an access and the edge that leads to the next access. */
struct event {
	enum edge edge;
	bool ordered; /* a message orders this event before the next */
	bool device, write;
	unsigned word, line, care;
};

struct cycle {
	unsigned n, words, lines;
	struct event event[EDGES_MAX];
};

/* ---- whether a cycle closes ---------------------------------------------- */

/*
 * Decide for each event whether it is a write. Returns false if two adjacent
 * edges do not fit together, if two edges in program order follow each other (a
 * single edge gives the same test), or if the last edge does not lead to the
 * other processor.
 */
static bool give_types(struct cycle *c)
{
	if (!crosses(c->event[c->n - 1].edge))
		return false;
	for (unsigned i = 0; i < c->n; i++) {
		enum edge in = c->event[(i + c->n - 1) % c->n].edge;
		enum edge out = c->event[i].edge;

		if (!crosses(in) && !crosses(out))
			return false;
		if (crosses(in) && crosses(out) &&
			ends_with_write(in) != begins_with_write(out))
			return false;
		c->event[i].write = crosses(out) ? begins_with_write(out)
						 : ends_with_write(in);
	}
	return true;
}

static bool give_sides(struct cycle *c, bool device_first)
{
	bool device = device_first;

	for (unsigned i = 0; i < c->n; i++) {
		c->event[i].device = device;
		device ^= crosses(c->event[i].edge);
	}
	return device == device_first;
}

static unsigned count_moves(const struct cycle *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->n; i++)
		n += c->event[i].edge == EDGE_SAME_LINE ||
			c->event[i].edge == EDGE_OTHER_LINE;
	return n;
}

/* Set the word of each event. Each edge to another word leads to a new word,
 * and the last such edge leads back to the first word. */
static bool give_words(struct cycle *c)
{
	unsigned moves = count_moves(c), word = 0, line = 0;

	c->words = moves ? moves : 1;
	c->lines = 1;
	if (moves == 1 || moves > LITMUS_WORDS)
		return false;
	for (unsigned i = 0; i < c->n; i++) {
		enum edge e = c->event[i].edge;

		c->event[i].word = word;
		c->event[i].line = line;
		if (e != EDGE_SAME_LINE && e != EDGE_OTHER_LINE)
			continue;
		if (++word == moves) {
			word = 0;
			if ((line == 0) != (e == EDGE_SAME_LINE))
				return false;
			line = 0;
		} else if (e == EDGE_OTHER_LINE) {
			line = c->lines++;
		}
	}
	return c->lines <= LITMUS_LINES;
}

/* ---- the test of a cycle ------------------------------------------------- */

static void number_name(char name[8], char letter, unsigned n)
{
	snprintf(name, 8, "%c%u", letter, n % 100);
}

struct maker {
	struct litmus *t;
	unsigned value;
};

static struct litmus_step *add_step(
	struct maker *m, bool device, enum litmus_op op, const struct event *ev)
{
	struct litmus *t = m->t;
	struct litmus_step *s = &t->step[device][t->n_steps[device]++];

	s->op = op;
	s->word = (uint8_t)ev->word;
	s->line = (uint8_t)ev->line;
	return s;
}

static unsigned add_channel(struct litmus *t)
{
	unsigned n = t->n_channels++;

	number_name(t->channel_name[n], 'c', n);
	return n;
}

static void add_access(struct maker *m, const struct event *ev)
{
	struct litmus *t = m->t;
	bool dma = ev->device && ev->care & BY_DMA;
	struct litmus_step *s = add_step(m, ev->device,
		ev->write ? (dma ? LITMUS_WRITE_DMA : LITMUS_WRITE)
			  : (dma ? LITMUS_READ_DMA : LITMUS_READ),
		ev);

	if (ev->write) {
		s->value = (uint8_t)++m->value;
		return;
	}
	s->reg = (uint8_t)t->n_regs;
	number_name(t->reg_name[s->reg], 'r', t->n_regs++);
}

static void add_event(struct maker *m, struct cycle *c, unsigned i)
{
	const struct event *ev = &c->event[i];
	bool all = m->t->contract == 2;
	unsigned channel = 0;

	if (ev->device && ev->care & FIRST_INVALIDATE)
		add_step(
			m, true, all ? LITMUS_FLUSH_ALL : LITMUS_INVALIDATE, ev)
			->whole = true;
	add_access(m, ev);
	if (ev->device && ev->care & THEN_CLEAN)
		add_step(m, true, all ? LITMUS_CLEAN_ALL : LITMUS_CLEAN, ev)
			->whole = true;
	if (!ev->ordered)
		return;
	channel = add_channel(m->t);
	add_step(m, ev->device, ev->device ? LITMUS_COMPLETE : LITMUS_SEND, ev)
		->channel = (uint8_t)channel;
	add_step(m, !ev->device, LITMUS_RECEIVE, ev)->channel =
		(uint8_t)channel;
}

static void name_cycle(struct litmus *t, const struct cycle *c)
{
	size_t at = 0;

	for (unsigned i = 0; i < c->n; i++) {
		const struct event *ev = &c->event[i];
		int n = snprintf(t->name + at, sizeof(t->name) - at,
			"%s%s%s%s-%s%s",
			i                    ? "."
				: ev->device ? "d."
					     : "c.",
			ev->device && ev->care & FIRST_INVALIDATE ? "i" : "",
			ev->write ? "w" : "r",
			!ev->device                     ? ""
				: ev->care & THEN_CLEAN ? "c"
				: ev->care & BY_DMA     ? "d"
							: "",
			edge_name[ev->edge], ev->ordered ? "s" : "");

		at += (size_t)n;
	}
}

static void give_names(struct litmus *t, const struct cycle *c)
{
	t->n_words = c->words;
	t->n_lines = c->lines;
	for (unsigned i = 0; i < c->words; i++)
		number_name(t->word_name[i], 'x', i);
	for (unsigned i = 0; i < c->lines; i++)
		number_name(t->line_name[i], 'l', i);
	for (unsigned i = 0; i < c->n; i++)
		t->word_line[c->event[i].word] = (uint8_t)c->event[i].line;
	t->n_agents = 2;
	t->kind[1] = LITMUS_DEVICE;
	snprintf(t->agent_name[0], sizeof(t->agent_name[0]), "cpu");
	snprintf(t->agent_name[1], sizeof(t->agent_name[1]), "device");
	t->nature = LITMUS_NATURE_ALL;
}

static void make_test(struct litmus *t, struct cycle *c, unsigned contract)
{
	struct maker m = { .t = t };

	memset(t, 0, sizeof(*t));
	t->contract = contract;
	give_names(t, c);
	name_cycle(t, c);
	for (unsigned i = 0; i < c->n; i++)
		add_event(&m, c, i);
}

/* ---- no duplicates ------------------------------------------------------- */

/* The tests that were already generated. The same cycle, begun at another
 * event, gives the same test under another name; the second one is dropped. */
struct seen {
	uint64_t *hash;
	size_t n, cap;
};

static uint64_t hash_of(const struct litmus *t)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a */
	struct litmus nameless = *t;
	char text[LITMUS_TEXT];

	nameless.name[0] = '\0';
	litmus_print(&nameless, text);
	for (const char *p = text; *p; p++)
		h = (h ^ (uint8_t)*p) * 1099511628211u;
	return h ? h : 1;
}

/* Returns 1 if the test is new, 0 if it is not, or a negative errno. */
static int is_new(struct seen *s, const struct litmus *t, struct err *e)
{
	uint64_t h = hash_of(t);
	size_t at = h & (s->cap - 1);

	for (; s->hash[at]; at = (at + 1) & (s->cap - 1))
		if (s->hash[at] == h)
			return 0;
	if (s->n * 2 > s->cap)
		return err_set(e, E2BIG, "more than %zu tests", s->n);
	s->hash[at] = h;
	s->n++;
	return 1;
}

/* ---- all cycles ---------------------------------------------------------- */

struct search {
	unsigned contract;
	struct cycle cycle;
	struct seen seen;
	int (*take)(void *arg, const struct litmus *);
	void *arg;
	struct err *e;
};

static int try_test(struct search *s)
{
	struct litmus t;
	int ret;

	make_test(&t, &s->cycle, s->contract);
	ret = is_new(&s->seen, &t, s->e);
	return ret > 0 ? s->take(s->arg, &t) : ret;
}

/* Try all choices of cache maintenance for the device's events, beginning with
 * event i. */
static int try_cares(struct search *s, unsigned i)
{
	struct event *ev = &s->cycle.event[i];
	int ret = 0;

	if (i == s->cycle.n)
		return try_test(s);
	ev->care = 0;
	if (!ev->device)
		return try_cares(s, i + 1);
	for (unsigned care = 0; !ret && care < CARES; care++) {
		if (care & THEN_CLEAN && !ev->write)
			continue;
		ev->care = care;
		ret = try_cares(s, i + 1);
	}
	return ret;
}

/* Try all choices of edges, beginning with edge i. The last edge is never
 * ordered by a message, because in a cycle of messages every agent would wait
 * forever. */
static int try_edges(struct search *s, unsigned i)
{
	struct cycle *c = &s->cycle;
	int ret = 0;

	if (i == c->n) {
		if (!give_types(c) || !give_words(c))
			return 0;
		for (unsigned device = 0; !ret && device < 2; device++)
			if (give_sides(c, device))
				ret = try_cares(s, 0);
		return ret;
	}
	for (unsigned e = 0; !ret && e < EDGES; e++)
		for (unsigned order = 0; !ret && order < 2; order++) {
			if (order && (!crosses((enum edge)e) || i + 1 == c->n))
				continue;
			c->event[i].edge = (enum edge)e;
			c->event[i].ordered = order;
			ret = try_edges(s, i + 1);
		}
	return ret;
}

int litmus_cycles(unsigned length, unsigned contract,
	int (*take)(void *arg, const struct litmus *), void *arg, struct err *e)
{
	struct search s = {
		.contract = contract, .take = take, .arg = arg, .e = e
	};
	int ret = 0;

	if (length > EDGES_MAX)
		return err_set(e, EINVAL, "cycles of %u edges: at most %d",
			length, EDGES_MAX);
	s.seen.cap = 1u << 22;
	s.seen.hash = calloc(s.seen.cap, sizeof(*s.seen.hash));
	if (!s.seen.hash)
		return err_set(e, ENOMEM, "no memory for tests");
	for (s.cycle.n = 2; !ret && s.cycle.n <= length; s.cycle.n++)
		ret = try_edges(&s, 0);
	free(s.seen.hash);
	return ret;
}
