#include "host/method/cycle.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/head/exit_head.h"
#include "host/method/tree_options.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/trace/trace.h"
#include "host/tree/prune.h"
#include "tensor/price_host.h"
#include "ipc/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Whose logits are computed together, ahead of the walk, so that the output
 * matrix is swept once. */
#define LIKELY_ROWS 16

/* A row more is worth what it adds to a sweep if the way leads to it with the
 * probability that this is of a sweep for one row. On a phone that is about a
 * third; of 125 MiB that two x86 cores read from the page cache 1 ms of 13.5.
 */
#define LIKELY_PHONE (1.0 / 3)
#define LIKELY       (1.0 / 12)

/* ---- time ---------------------------------------------------------------- */

uint64_t cycle_now(const struct cycle *c)
{
	return c->env->phone ? session_phone_ps(c->session) : clock_ns();
}

/* What drafted has worked; a drafter's own work since it was last asked, on the
 * phone. */
static void price_draft(struct cycle *c)
{
	const struct drafter *d = c->env->drafter;
	struct price price = { 0 };

	if (d->price)
		d->price(d->arg, &price);
	session_add_work_of(c->session, TRACE_PHONE_DRAFT, &price);
}

struct timer {
	uint64_t ns, ps, now;
};

static struct timer timer_start(const struct cycle *c)
{
	return (struct timer){ clock_ns(), session_phone_ps(c->session),
		cycle_now(c) };
}

/* Of drafting, which `drafted` ends. */
static struct timer draft_start(const struct cycle *c)
{
	trace_begin(session_trace(c->session), TRACE_DRAFT, 0, 0);
	return timer_start(c);
}

static void drafted(struct cycle *c, uint32_t nodes, const struct timer *t)
{
	price_draft(c);
	c->draft_time += cycle_now(c) - t->now;
	c->expanded += nodes;
	c->env->stats.expanded += nodes;
	c->env->stats.draft_ns += clock_ns() - t->ns;
	c->env->stats.draft_ps += session_phone_ps(c->session) - t->ps;
	trace_end(session_trace(c->session), TRACE_DRAFT);
}

/* ---- drafting ------------------------------------------------------------ */

/* Growing the tree, by the nodes that were looked at. */
static void price_growth(struct cycle *c)
{
	struct timer t = draft_start(c);

	session_add_steps(c->session, c->tree->steps);
	c->tree->steps = 0;
	drafted(c, 0, &t);
}

static bool ends(const void *gen, int32_t token)
{
	return gen_ends(gen, token);
}

int cycle_expand(
	struct cycle *c, const uint32_t *node, uint32_t n, struct err *e)
{
	const struct drafter *d = c->env->drafter;
	int ret = d->expand(d->arg, c->tree, node, n, e);

	for (uint32_t i = 0; i < n && !ret; i++)
		tree_end(c->tree, node[i], ends, c->gen);
	return ret;
}

static int begin_counted(void *arg, struct tree *tree, const int32_t *text,
	size_t n, struct err *e)
{
	struct cycle *c = arg;
	struct timer t = draft_start(c);
	int ret =
		c->env->drafter->begin(c->env->drafter->arg, tree, text, n, e);

	if (!ret)
		tree_end(tree, 0, ends, c->gen);
	drafted(c, 1, &t);
	return ret;
}

static int expand_counted(void *arg, struct tree *tree, const uint32_t *node,
	uint32_t n, struct err *e)
{
	struct cycle *c = arg;
	struct timer t = draft_start(c);
	int ret = cycle_expand(c, node, n, e);
	uint64_t before = c->draft_time;

	drafted(c, n, &t);
	c->expand_time += c->draft_time - before;
	c->looked += n;
	if (c->saw_look)
		c->saw_look(c, n, c->draft_time - before);
	return ret;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int cycle_begin(struct cycle *c, uint32_t depth, struct err *e)
{
	const struct session *s = c->session;
	uint32_t room = session_context(s) - session_length(s, SESSION_TEXT);
	const int32_t *text;
	size_t n;

	text = gen_tokens(c->gen, &n);
	/* The last of the tokens that may still come is the target's own. */
	c->limits.depth = (uint32_t)least(depth, gen_left(c->gen) - 1);
	c->limits.rows = (uint32_t)least(c->rows, room);
	c->draft_time = c->expand_time = 0;
	c->expanded = c->looked = 0;
	c->exit = NULL;
	if (c->limits.depth && c->limits.rows > 1)
		return c->drafter.begin(c, c->tree, text, n, e);
	tree_reset(c->tree, text[n - 1]);
	return 0;
}

/* ---- cost ---------------------------------------------------------------- */

static void pass_ended(struct cycle *c)
{
	c->passed_at = cycle_now(c);
	c->ahead = session_ahead(c->session);
}

double cycle_verify_cost(const struct cycle *c)
{
	return (double)(c->pass_time + c->hidden);
}

double cycle_draft_cost(const struct cycle *c)
{
	return (double)least(c->draft_time, c->gap - c->hidden);
}

/* ---- a pass -------------------------------------------------------------- */

/* The exit predictor's probabilities of tokens after a node. */
static void score(
	void *arg, uint32_t node, const int32_t *token, uint32_t n, float *out)
{
	const struct cycle *c = arg;

	exit_head_score(
		c->exit, session_hidden(c->session, node), token, n, out);
}

/* The predictor's products and its softmax, and what is done with them. */
static void price_pruning(struct cycle *c, const struct prune_result *r)
{
	uint64_t width = session_priced_width(c->session);
	uint64_t values = r->scored * width;
	struct price score = { 0 }, softmax = { 0 };

	if (c->env->phone) {
		price_cpu(c->env->phone, values, 2 * values, &score);
		price_sweep(c->env->phone, PRICE_SWEEP_WEIGH, 1, r->scored,
			&softmax);
	}
	session_add_work_of(c->session, TRACE_PHONE_DRAFT, &score);
	session_add_work_of(c->session, TRACE_PHONE_DRAFT, &softmax);
	session_add_steps(c->session, r->steps);
}

static void count_pruning(struct method_stats *s, const struct prune_result *r)
{
	s->pruned++;
	s->back += r->back;
	s->few_rows += r->lack == PRUNE_LACKS_ROWS;
	s->few_leaves += r->lack == PRUNE_LACKS_LEAVES;
	s->few_tokens += r->lack == PRUNE_LACKS_TOKENS;
}

static int choose(void *arg, uint32_t *keep, uint32_t *n, struct err *e)
{
	struct cycle *c = arg;
	uint64_t began = cycle_now(c);

	struct prune_result r = {
		.keep = keep, .sigma = c->sigma, .merit = c->merit
	};

	prune_tree(c->tree, c->prune, score, c, &r);
	*n = r.n;
	count_pruning(&c->env->stats, &r);
	price_pruning(c, &r);
	c->choose_time = cycle_now(c) - began;
	c->went_on = *n;
	c->env->stats.kept += *n;
	return 0;
}

static int beside(void *arg, struct err *e)
{
	struct cycle *c = arg;
	int ret = c->env->method->beside(c, e);

	price_draft(c);
	return ret;
}

static int forward(struct cycle *c, struct err *e)
{
	const struct tree *t = c->tree;
	struct rows rows = { SIGHT_TREE, t->n, c->row };
	struct session_hooks hooks = { .arg = c };
	uint64_t began = cycle_now(c), device = session_device_ns(c->session);
	int ret;

	rows_tree(c->row, SESSION_TEXT,
		session_length(c->session, SESSION_TEXT), t->token, t->parent,
		t->n);
	c->gap = began - c->passed_at;
	c->hidden = least(c->gap, c->ahead);
	c->choose_time = 0;
	c->verified = c->went_on = t->n;
	c->leaves = t->leaves;
	if (c->exit)
		hooks.choose = choose;
	else
		c->env->stats.kept += c->verified;
	if (c->env->method->beside)
		hooks.meanwhile = beside;
	ret = session_forward_with(c->session, &rows, &hooks, e);
	pass_ended(c);
	c->pass_time = c->passed_at - began;
	c->device_ns = session_device_ns(c->session) - device;
	c->passes++;
	return ret;
}

/* The child that is that token, among the rows that went all the way. */
static int32_t computed_child(
	const struct cycle *c, uint32_t node, int32_t token)
{
	int32_t child = tree_child(c->tree, node, token);

	session_add_steps(
		c->session, (child < 0 ? c->tree->n : (uint32_t)child) - node);
	if (child < 0 || (uint32_t)child >= c->verified ||
		!session_hidden(c->session, (uint32_t)child))
		return -1;
	return child;
}

/* The drafter learns from the logits of rows. */
static void show_drafter(
	const struct cycle *c, uint32_t node, const float *logits)
{
	const struct drafter *d = c->env->drafter;

	if (d->computed)
		d->computed(d->arg, c->tree, node, logits,
			session_model(c->session)->n_vocab);
}

/* Room for those of the rows that are computed together. */
static int reserve_logits(struct cycle *c, bool all, struct err *e)
{
	uint32_t n_vocab = session_model(c->session)->n_vocab;
	uint32_t rows = all || c->rows < LIKELY_ROWS ? c->rows : LIKELY_ROWS;

	if (c->logits)
		return 0;
	c->logits = malloc((size_t)rows * n_vocab * sizeof(*c->logits));
	if (!c->logits)
		return err_set(
			e, ENOMEM, "no memory for the logits of %u rows", rows);
	return 0;
}

/* Those of some rows, which the drafter sees. No others are known then. */
static int compute_rows(
	struct cycle *c, const uint32_t *row, uint32_t n, struct err *e)
{
	uint32_t n_vocab = session_model(c->session)->n_vocab;
	float *out[WIRE_MAX_ROWS] = { NULL };
	int ret;

	for (uint32_t i = 0; i < n; i++)
		out[i] = c->logits + (size_t)i * n_vocab;
	ret = session_logits_ahead(c->session, row, n, out, e);
	memset(c->known, 0, c->rows * sizeof(*c->known));
	for (uint32_t i = 0; i < n && !ret; i++) {
		c->known[row[i]] = out[i];
		show_drafter(c, row[i], out[i]);
	}
	return ret;
}

/* Of all rows that went all the way. */
static int compute_all(struct cycle *c, struct err *e)
{
	uint32_t row[WIRE_MAX_ROWS], n = 0;

	for (uint32_t i = 0; i < c->verified; i++)
		if (session_hidden(c->session, i))
			row[n++] = i;
	return compute_rows(c, row, n, e);
}

/* Whether the way may well lead to u from a node before it. A node's path is
 * no likelier than its parent's, so with a node that is likely its ancestors
 * are. */
static bool is_likely(const struct cycle *c, uint32_t u, uint32_t node)
{
	const double least = c->env->phone ? LIKELY_PHONE : LIKELY;
	const struct tree *t = c->tree;
	uint32_t up = u;

	if (t->path[u] < least * t->path[node] ||
		!session_hidden(c->session, u))
		return false;
	while (up > node)
		up = (uint32_t)t->parent[up];
	return up == node;
}

/* The likeliest so far, in their order; the last one may have to go. */
static void put_likely(const struct cycle *c, uint32_t u,
	uint32_t row[LIKELY_ROWS], uint32_t *n)
{
	const double *path = c->tree->path;
	uint32_t at = *n;

	if (at == LIKELY_ROWS && path[row[at - 1]] >= path[u])
		return;
	if (at < LIKELY_ROWS)
		++*n;
	else
		at--;
	for (; at && path[row[at - 1]] < path[u]; at--)
		row[at] = row[at - 1];
	row[at] = u;
}

/* Of a node on the way, and of those behind it that are likely to be, too. */
static int compute_likely(struct cycle *c, uint32_t node, struct err *e)
{
	uint32_t row[LIKELY_ROWS], n = 0;

	put_likely(c, node, row, &n);
	for (uint32_t u = node + 1; u < c->verified; u++)
		if (is_likely(c, u, node))
			put_likely(c, u, row, &n);
	session_add_steps(c->session, c->verified - node);
	return compute_rows(c, row, n, e);
}

/* Draw along the tree for as long as it was right, with logits of the rows on
 * that way alone. */
static int walk(struct cycle *c, struct err *e)
{
	int32_t node = 0;

	c->n_path = 0;
	while (node >= 0) {
		int ret = c->known[node] ? 0
					 : compute_likely(c, (uint32_t)node, e);

		if (ret)
			return ret;
		c->path[c->n_path++] = (uint32_t)node;
		session_logits_used(c->session, c->known[node]);
		c->next = method_next(c->session, c->gen, c->known[node]);
		node = gen_done(c->gen)
			? -1
			: computed_child(c, (uint32_t)node, c->next);
	}
	return 0;
}

static void tell_drafter(const struct cycle *c)
{
	const struct drafter *d = c->env->drafter;
	size_t n;
	const int32_t *text = gen_tokens(c->gen, &n);

	if (d->saw)
		d->saw(d->arg, text, n);
}

int cycle_verify(struct cycle *c, struct err *e)
{
	struct method_stats *stats = &c->env->stats;
	bool all = c->env->drafter->all_rows;
	struct timer t;
	int ret;

	price_growth(c);
	t = timer_start(c);
	ret = forward(c, e);

	memset(c->known, 0, c->rows * sizeof(*c->known));
	if (!ret)
		ret = reserve_logits(c, all, e);
	if (!ret && all)
		ret = compute_all(c, e);
	if (!ret)
		ret = walk(c, e);
	if (!ret)
		ret = session_accept(
			c->session, SESSION_TEXT, c->path, c->n_path, e);
	c->verify_time = cycle_now(c) - t.now;
	stats->verify_ns += clock_ns() - t.ns;
	stats->verify_ps += session_phone_ps(c->session) - t.ps;
	if (ret)
		return ret;
	stats->cycles++;
	stats->leaves += c->leaves;
	method_count_draft(
		c->env, c->tree->depth + 1, c->verified - 1, c->n_path - 1);
	tell_drafter(c);
	return 0;
}

/* ---- opening ------------------------------------------------------------- */

/* The drafter goes through the prompt as well: what that takes belongs to the
 * prompt, not to the first tree. */
static int draft_prompt(
	struct cycle *c, const int32_t *prompt, size_t n, struct err *e)
{
	int ret = 0;

	if (gen_left(c->gen) > 2)
		ret = c->env->drafter->begin(
			c->env->drafter->arg, c->tree, prompt, n, e);
	price_draft(c);
	return ret;
}

struct prompt {
	const struct drafter *drafter;
	const int32_t *token;
	size_t n, from; /* what is before that is cached */
	uint32_t n_vocab;
};

static bool wants(void *arg, size_t at)
{
	const struct prompt *p = arg;

	return p->drafter->wants(p->drafter->arg, p->token, p->n, p->from + at);
}

static void read_logits(void *arg, size_t at, const float *logits)
{
	const struct prompt *p = arg;

	p->drafter->read(p->drafter->arg, p->from + at, logits, p->n_vocab);
}

/* The first token, which the prompt's last row gives, if one is wanted. */
static int first_token(struct cycle *c, struct err *e)
{
	float *logits = gen_logits(c->gen);
	size_t n;
	const int32_t *prompt = gen_tokens(c->gen, &n);
	size_t from = session_length(c->session, SESSION_TEXT);
	struct prompt p = { c->env->drafter, prompt, n, from,
		session_model(c->session)->n_vocab };
	const struct session_reader reader = {
		.wants = wants, .read = read_logits, .arg = &p
	};
	struct session_stats before, after;
	uint32_t row;
	int ret;

	session_stats(c->session, &before);
	ret = session_prefill_with(c->session, SESSION_TEXT, prompt + from,
		n - from, p.drafter->wants ? &reader : NULL, &row, e);
	session_stats(c->session, &after);
	pass_ended(c);
	if (after.passes > before.passes) {
		double passes = (double)(after.passes - before.passes);

		c->prompt_rows = (double)(n - from) / passes;
		c->prompt_ns =
			(double)(after.device_ns - before.device_ns) / passes;
	}
	if (!ret)
		ret = draft_prompt(c, prompt, n, e);
	if (ret || gen_done(c->gen))
		return ret;
	ret = session_logits(c->session, row, logits, e);
	if (!ret)
		method_next(c->session, c->gen, logits);
	return ret;
}

int cycle_open(struct cycle *c, struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	const struct method *m = env->method;
	uint32_t rows = m->decode_rows(env);
	uint32_t spare = m->spare_nodes ? m->spare_nodes(env) : 0;
	uint32_t candidates = m->candidates ? m->candidates(env)
					    : tree_options(env)->candidates;
	int ret;

	*c = (struct cycle){ .session = s, .gen = g, .env = env, .rows = rows };
	c->drafter = (struct drafter){ .arg = c,
		.begin = begin_counted,
		.expand = expand_counted,
		.batch = env->drafter->batch,
		.most = env->drafter->most };
	c->own = calloc(1, m->lane_bytes ? m->lane_bytes : 1);
	c->path = calloc(rows, sizeof(*c->path));
	c->row = calloc(rows, sizeof(*c->row));
	c->sigma = calloc(rows + spare, sizeof(*c->sigma));
	c->merit = calloc(rows + spare, sizeof(*c->merit));
	c->known = calloc(rows, sizeof(*c->known));
	if (!c->own || !c->path || !c->row || !c->sigma || !c->merit ||
		!c->known)
		return err_set(e, ENOMEM,
			"no memory for trees of %u "
			"rows",
			rows);
	ret = tree_open(&c->tree, rows + spare, candidates, e);
	if (ret) {
		c->tree = NULL;
		return ret;
	}
	return first_token(c, e);
}

void cycle_close(struct cycle *c)
{
	tree_close(c->tree);
	free(c->own);
	free(c->path);
	free(c->row);
	free(c->sigma);
	free(c->merit);
	free(c->logits);
	free(c->known);
}

int cycle_run(struct session *s, struct generation *g, struct method_env *env,
	struct err *e)
{
	const struct method *m = env->method;
	struct cycle c;
	int ret = cycle_open(&c, s, g, env, e);

	if (!ret && m->start)
		m->start(&c);
	while (!ret && !gen_done(g)) {
		ret = m->plan(&c, e);
		if (!ret)
			ret = cycle_verify(&c, e);
		if (!ret && m->took)
			m->took(&c);
	}
	cycle_close(&c);
	return ret;
}
