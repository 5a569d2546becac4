/*
 * Speculative decoding of one request: drafts the tree of a pass (a run of the
 * model), prunes the tree, chooses the rows whose logits are computed, and
 * updates the statistics after the pass. The root of the tree is the last token
 * of the text, and all other nodes are drafted tokens; each node is a row of
 * the pass. The walk goes down the tree from the root along the tokens that the
 * model draws.
 */
#include "host/scheduler/cycle.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/head/exit_head.h"
#include "host/scheduler/tree_options.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/trace/trace.h"
#include "host/tree/pass_cost.h"
#include "host/tree/prune.h"
#include "tensor/soc/price_host.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * A sweep computes the logits of several rows in one product with the output
 * matrix. The walk down the tree draws the target model's token at each node. A
 * sweep also includes a row that the walk has not reached yet, if the
 * probability that the walk reaches the row is at least this limit. The best
 * limit is the time for one additional row in a sweep, divided by the time of a
 * sweep for one row. This ratio is about a third on a phone (LIKELY_PHONE), and
 * about 1 ms / 13.5 ms on two x86 cores that read a 125 MiB matrix from the
 * page cache (LIKELY).
 */
#define LIKELY_PHONE (1.0 / 3)
#define LIKELY       (1.0 / 12)

/* For methods without `plan`: the tree gets another level if this level is
 * expected to add more accepted tokens than this number. */
#define THRESHOLD 0.1

/* ---- time ---------------------------------------------------------------- */

uint64_t cycle_now(const struct cycle *c)
{
	return c->env->phone ? session_phone_ps(c->session) : clock_ns();
}

/* The drafter has worked since the previous call of this function: add the time
 * of this work to the simulated phone's time. */
static void charge_draft(struct cycle *c)
{
	const struct drafter *d = c->source;
	struct search_work work = { 0 };
	struct price price = { 0 };

	if (d->price)
		d->price(d->arg, &price);
	session_add_work_of(c->session, TRACE_PHONE_DRAFT, &price);
	if (d->searched)
		d->searched(d->arg, &work);
	session_add_search(c->session, &work);
}

struct timer {
	uint64_t ns, ps, now;
};

/* Start to measure and trace a call that drafts. The call of draft_end ends the
 * measurement. */
static struct timer draft_start(const struct cycle *c)
{
	trace_begin(session_trace(c->session), TRACE_DRAFT, 0, 0);
	return (struct timer){ clock_ns(), session_phone_ps(c->session),
		cycle_now(c) };
}

/* Stop measuring and tracing. The measured call drafted for n requests, among
 * which the time is divided equally. */
static void draft_end(
	struct cycle *const *all, uint32_t n, const struct timer *t)
{
	struct method_stats *stats = &all[0]->env->stats;

	for (uint32_t i = 0; i < n; i++)
		charge_draft(all[i]);
	for (uint32_t i = 0; i < n; i++)
		all[i]->draft_time += (cycle_now(all[0]) - t->now) / n;
	stats->draft_ns += clock_ns() - t->ns;
	stats->draft_ps += session_phone_ps(all[0]->session) - t->ps;
	trace_end(session_trace(all[0]->session), TRACE_DRAFT);
}

/* ---- drafting ------------------------------------------------------------ */

static bool ends(const void *gen, int32_t token)
{
	return gen_ends(gen, token);
}

int cycle_expand(struct cycle *c, uint32_t node, struct err *e)
{
	const struct drafter *d = c->source;
	int ret = d->expand(d->arg, c->tree, &node, 1, e);

	if (!ret)
		tree_end(c->tree, node, ends, c->gen);
	return ret;
}

/* Calls of drafters that call_drafters makes together. cycle[i]: the request
 * for which call i drafts; ask[i]: the arguments of call i. */
struct calls {
	struct cycle *cycle[ROWS_SEQUENCES];
	struct drafter_ask ask[ROWS_SEQUENCES];
	uint32_t n;
};

static void follow_sequence(const struct cycle *c)
{
	if (c->source->follow)
		c->source->follow(c->source->arg, c->sequence);
}

static void add_call(
	struct calls *a, struct cycle *c, const uint32_t *node, uint32_t n)
{
	struct drafter_ask *ask = &a->ask[a->n];

	if (!node)
		follow_sequence(c);
	a->cycle[a->n++] = c;
	*ask = (struct drafter_ask){
		.arg = c->source->arg, .tree = c->tree, .node = node, .n = n
	};
	ask->text = gen_tokens(c->gen, &ask->n_text);
}

/*
 * Call the drafters. A call that names nodes expands these nodes; a call
 * without nodes begins a tree. If the drafters have `expand_all`, one call
 * serves all requests; otherwise the drafters are called one after another.
 */
static int call_drafters(struct calls *a, struct err *e)
{
	const struct drafter *d = a->n ? a->cycle[0]->source : NULL;
	bool together = a->n > 1 && d->expand_all;
	uint32_t some;
	int ret = 0;

	for (uint32_t i = 0; i < a->n && !ret; i += some) {
		const struct drafter_ask *ask = &a->ask[i];
		struct cycle *const *c = &a->cycle[i];
		struct timer t = draft_start(*c);
		uint64_t before = (*c)->draft_time, time;

		d = (*c)->source;
		some = together ? a->n : 1;
		if (together)
			ret = ask->node ? d->expand_all(ask, some, e)
					: d->begin_all(ask, some, e);
		else
			ret = ask->node ? d->expand(d->arg, ask->tree,
						  ask->node, ask->n, e)
					: d->begin(d->arg, ask->tree, ask->text,
						  ask->n_text, e);
		for (uint32_t k = 0; k < some && !ret; k++)
			for (uint32_t u = 0; u < ask[k].n; u++)
				tree_end(c[k]->tree,
					ask[k].node ? ask[k].node[u] : 0, ends,
					c[k]->gen);
		draft_end(c, some, &t);
		time = (*c)->draft_time - before;
		for (uint32_t k = 0; k < some; k++) {
			c[k]->expanded += ask[k].n;
			c[k]->env->stats.expanded += ask[k].n;
			/* without `node` the call began a tree, so it expanded
			 * only the root, which expand_time does not include */
			if (!ask[k].node)
				continue;
			c[k]->expand_time += time;
			if (c[k]->expand_cost)
				pass_cost_saw_look(c[k]->expand_cost, ask[k].n,
					(double)time);
		}
	}
	return ret;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

const struct build_limits *cycle_limits(struct cycle *c, uint32_t depth)
{
	const struct session *s = c->session;
	uint32_t room = session_context(s) - session_length(s, c->sequence);

	/* A pass emits one token in addition to the accepted drafted tokens, so
	 * the last token that the request still needs is not drafted. */
	c->limits.depth = (uint32_t)least(depth, gen_left(c->gen) - 1);
	c->limits.rows = (uint32_t)least(c->most, room);
	c->limits.batch = c->source->batch;
	c->limits.most = drafter_most(c->source);
	return &c->limits;
}

int cycle_plan(struct cycle *const *all, uint32_t n, struct err *e)
{
	struct calls a = { .n = 0 };
	bool grows[ROWS_SEQUENCES];
	int ret;

	for (uint32_t i = 0; i < n; i++) {
		struct cycle *c = all[i];
		const struct method *m = c->env->method;
		size_t length;
		const int32_t *text = gen_tokens(c->gen, &length);

		if (!c->started && m->start)
			m->start(c);
		c->started = true;
		c->draft_time = c->expand_time = 0;
		c->expanded = 0;
		c->exit = NULL;
		/*
		 * The method chooses the builder of its tree in `plan`. A
		 * method without `plan` drafts only if --draft is given, and
		 * its tree is grown by the algorithm of the paper OPT-Tree
		 * (host/tree/build.h).
		 */
		if (c->drafts && m->plan)
			m->plan(c);
		else if (c->drafts)
			build_opt_begin(&c->build, c->tree,
				cycle_limits(c, tree_depth(c->env)), THRESHOLD);
		/* The tree starts with one node, the root: the last token of
		 * the text. */
		tree_reset(c->tree, text[length - 1]);
		grows[i] = c->drafts;
		if (c->drafts && c->limits.depth && c->limits.rows > 1)
			add_call(&a, c, NULL, 1);
	}
	do {
		ret = call_drafters(&a, e);
		a.n = 0;
		for (uint32_t i = 0; i < n && ret >= 0; i++) {
			const uint32_t *node;
			uint32_t nodes;

			if (!grows[i])
				continue;
			ret = build_next(&all[i]->build, &node, &nodes, e);
			grows[i] = ret == BUILD_EXPAND;
			if (grows[i])
				add_call(&a, all[i], node, nodes);
		}
	} while (a.n && ret >= 0);
	for (uint32_t i = 0; i < n; i++) {
		struct cycle *c = all[i];
		struct timer t;

		if (ret >= 0 && c->drafts && c->env->method->grown)
			c->env->method->grown(c);
		/*
		 * Add the time of growing the tree to the simulated phone's
		 * time. Growing takes time in proportion to the number of nodes
		 * that the builder compared.
		 */
		t = draft_start(c);
		session_add_steps(c->session, c->tree->steps);
		c->tree->steps = 0;
		draft_end(&c, 1, &t);
	}
	return ret < 0 ? ret : 0;
}

/* ---- cost of a pass ------------------------------------------------------ */

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

void cycle_phone_cost(const struct session *s, uint32_t rows, uint32_t cached,
	struct pass_cost *cost)
{
	uint32_t row[PASS_ROWS], n = 0;
	double time[PASS_ROWS];

	do {
		uint32_t first = n ? row[n - 1] + 1 : 1;
		uint32_t last = first == 1 ? 1 : session_graph_rows(s, first);

		row[n++] = first;
		if (last > first)
			row[n++] = last;
	} while (n + 2 <= PASS_ROWS && row[n - 1] < rows);
	for (uint32_t i = 0; i < n; i++)
		time[i] =
			(double)session_expect_pass(s, row[i], cached + row[i]);
	pass_cost_set(cost, row, time, n);
}

/* ---- a pass -------------------------------------------------------------- */

void cycle_begin_pass(struct cycle *c, uint32_t first_row, uint64_t now)
{
	c->first = first_row;
	c->gap = now - c->passed_at;
	c->hidden = least(c->gap, c->ahead);
	c->choose_time = 0;
	c->lost = 0;
	c->verified = c->n_continued = c->tree->n;
	c->leaves = c->tree->leaves;
	c->n_path = 0;
	memset(c->known, 0, c->rows * sizeof(*c->known));
}

void cycle_end_pass(struct cycle *c, uint64_t began, uint64_t device_ns,
	uint32_t rows_of_all)
{
	pass_ended(c);
	c->pass_time = c->passed_at - began;
	c->device_ns = device_ns;
	c->alone = rows_of_all == c->verified;
	c->passes++;
}

/* Get the exit predictor's scores of the tokens token[n] as children of
 * `node`. */
static void score(
	void *arg, uint32_t node, const int32_t *token, uint32_t n, float *out)
{
	const struct cycle *c = arg;

	exit_head_score(c->exit, session_hidden(c->session, c->first + node),
		token, n, out);
}

uint32_t cycle_choose(struct cycle *c, uint32_t *keep)
{
	struct method_stats *stats = &c->env->stats;
	const struct soc *phone = c->env->phone;
	uint64_t began = cycle_now(c), values;
	struct price product = { 0 }, softmax = { 0 };
	struct prune_result r = {
		.keep = keep, .merit = c->merit, .score = c->score
	};

	prune_tree(c->tree, c->prune, score, c, &r);
	stats->pruned++;
	/* Rounding may make the difference negative, because kept_tokens and
	 * all_tokens are summed in different orders. */
	c->lost = fmax(1 - r.kept_tokens / r.all_tokens, 0);

	/* Add the time of the predictor's dot products, its softmax, and the
	 * pruning to the simulated phone's time. */
	values = r.scored * session_priced_width(c->session);
	if (phone) {
		price_cpu(phone, values, 2 * values, &product);
		price_sweep(phone, PRICE_SWEEP_WEIGH, 1, r.scored, &softmax);
	}
	session_add_work_of(c->session, TRACE_PHONE_DRAFT, &product);
	session_add_work_of(c->session, TRACE_PHONE_DRAFT, &softmax);
	session_add_steps(c->session, r.steps);
	c->choose_time = cycle_now(c) - began;
	c->n_continued = r.n;
	return r.n;
}

int cycle_meanwhile(struct cycle *c, struct err *e)
{
	int ret = c->env->method->meanwhile(c, e);

	charge_draft(c);
	return ret;
}

/* ---- logits -------------------------------------------------------------- */

/*
 * Whether the walk down the tree, which is at `node`, will probably reach node
 * u. A node's path is never likelier than its parent's path, so every ancestor
 * of a likely node is likely, too.
 */
static bool is_likely(const struct cycle *c, uint32_t u, uint32_t node)
{
	const double least = c->env->phone ? LIKELY_PHONE : LIKELY;
	const struct tree *t = c->tree;
	uint32_t up = u;

	if (t->path[u] < least * t->path[node] ||
		!session_hidden(c->session, c->first + u))
		return false;
	while (up > node)
		up = (uint32_t)t->parent[up];
	return up == node;
}

/* Insert node u into row[]. The array holds the likeliest nodes that were
 * inserted, at most `most`, sorted from the likeliest down. */
static void put_likely(const struct cycle *c, uint32_t u, uint32_t most,
	uint32_t *row, uint32_t *n)
{
	const double *path = c->tree->path;
	uint32_t at = *n;

	if (at == most && path[row[at - 1]] >= path[u])
		return;
	if (at < most)
		++*n;
	else
		at--;
	for (; at && path[row[at - 1]] < path[u]; at--)
		row[at] = row[at - 1];
	row[at] = u;
}

uint32_t cycle_likely(
	const struct cycle *c, uint32_t node, uint32_t most, uint32_t *out)
{
	uint32_t n = 0;

	put_likely(c, node, most, out, &n);
	for (uint32_t u = node + 1; u < c->verified; u++)
		if (is_likely(c, u, node))
			put_likely(c, u, most, out, &n);
	session_add_steps(c->session, c->verified - node);
	return n;
}

void cycle_set_logits(struct cycle *c, uint32_t node, const float *logits)
{
	const struct drafter *d = c->source;

	c->known[node] = logits;
	if (d->computed)
		d->computed(d->arg, c->tree, node, logits,
			session_model(c->session)->n_vocab);
}

static void put_candidates(
	struct candidate *c, const struct wire_likely *likely, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		c[i] = (struct candidate){ .token = (int32_t)likely[i].token,
			.q = likely[i].probability };
}

void cycle_verified(struct cycle *c, uint32_t first, uint32_t rows)
{
	const struct drafter *d = c->source;
	struct candidate likely[WIRE_MAX_TOP_K];

	for (uint32_t u = 0; u < rows; u++) {
		uint32_t n;
		const struct wire_likely *all =
			session_predicted(c->session, first + u, &n);

		put_candidates(likely, all, n);
		if (all)
			d->verified(d->arg, c->tree, u, likely, n);
	}
}

int32_t cycle_child(const struct cycle *c, uint32_t node, int32_t token)
{
	int32_t child = tree_child(c->tree, node, token);

	session_add_steps(
		c->session, (child < 0 ? c->tree->n : (uint32_t)child) - node);
	if (child < 0 || (uint32_t)child >= c->verified ||
		!session_hidden(c->session, c->first + (uint32_t)child))
		return -1;
	return child;
}

void cycle_learn(struct cycle *c)
{
	struct method_stats *stats = &c->env->stats;
	const struct method *m = c->env->method;
	size_t n;
	const int32_t *text = gen_tokens(c->gen, &n);

	stats->cycles++;
	stats->leaves += c->leaves;
	stats->kept += c->n_continued;
	c->next = text[n - 1];
	method_count_draft(
		c->env, c->tree->depth + 1, c->verified - 1, c->n_path - 1);
	/*
	 * For each source of drafts, count the drafted and the accepted tokens.
	 * Node numbers ascend along the path, so one loop over the nodes finds
	 * all nodes of the path.
	 */
	for (uint32_t u = 1, k = 1; u < c->verified; u++) {
		bool accepted = k < c->n_path && c->path[k] == u;

		k += accepted;
		switch (c->tree->source[u]) {
#define COUNT(id, name)                             \
	case SOURCE_##id:                           \
		stats->name##_rows++;               \
		stats->name##_accepted += accepted; \
		break;
			DRAFT_SOURCES(COUNT)
#undef COUNT
		}
	}
	gen_draft(c->gen,
		&(struct gen_draft){ .n = c->tree->n,
			.token = c->tree->token,
			.parent = c->tree->parent,
			.path = c->path,
			.n_path = c->n_path,
			.next = c->next });
	if (c->source->saw)
		c->source->saw(c->source->arg, text, n);
	if (m->after_pass)
		m->after_pass(c);
}

/* ---- opening a cycle, reading the prompt --------------------------------- */

struct prompt {
	const struct drafter *drafter;
	const int32_t *token;
	size_t n, from; /* the first `from` of the n prompt tokens are cached */
};

static bool wants(void *arg, size_t at)
{
	const struct prompt *p = arg;

	return p->drafter->wants(p->drafter->arg, p->token, p->n, p->from + at);
}

static void take_likely(
	void *arg, size_t at, const struct wire_likely *likely, uint32_t n)
{
	const struct prompt *p = arg;
	struct candidate c[WIRE_MAX_TOP_K];

	put_candidates(c, likely, n);
	p->drafter->predicted(p->drafter->arg, p->from + at, c, n);
}

int cycle_read_prompt(struct cycle *c, uint32_t *last_row, struct err *e)
{
	size_t n;
	const int32_t *prompt = gen_tokens(c->gen, &n);
	size_t from = session_length(c->session, c->sequence);
	struct prompt p = { c->source, prompt, n, from };
	const struct session_reader reader = {
		.wants = wants, .likely = take_likely, .arg = &p
	};
	struct session_stats before, after;
	int ret;

	session_stats(c->session, &before);
	ret = session_prefill(c->session, c->sequence, prompt + from, n - from,
		p.drafter->wants ? &reader : NULL, last_row, e);
	session_stats(c->session, &after);
	pass_ended(c);
	if (after.passes > before.passes) {
		double passes = (double)(after.passes - before.passes);

		c->prompt_rows = (double)(n - from) / passes;
		c->prompt_ns =
			(double)(after.busy_ns - before.busy_ns) / passes;
	}
	/* Let the drafter read the prompt, too. The drafter's time counts as
	 * time of reading the prompt, not of drafting the first tree. */
	if (!ret) {
		follow_sequence(c);
		if (gen_left(c->gen) > 2)
			ret = c->source->begin(
				c->source->arg, c->tree, prompt, n, e);
		charge_draft(c);
	}
	return ret;
}

int cycle_open(struct cycle *c, struct session *s, struct method_env *env,
	const struct drafter *source, uint32_t rows, struct err *e)
{
	const struct method *m = env->method;
	uint32_t nodes = rows + (m->spare_nodes ? m->spare_nodes(env) : 0);
	const struct tree_options *o = method_options(env, &tree_table);
	uint32_t k = m->candidates ? m->candidates(env) : o->candidates;

	*c = (struct cycle){ .session = s,
		.env = env,
		.source = source,
		.rows = rows,
		.most = rows };
	c->own = malloc(m->lane_bytes + 1);
	c->path = calloc(rows, sizeof(*c->path));
	c->score = calloc((size_t)nodes * k, sizeof(*c->score));
	c->merit = calloc(nodes, sizeof(*c->merit));
	c->known = calloc(rows, sizeof(*c->known));
	if (!c->own || !c->path || !c->score || !c->merit || !c->known)
		return err_set(e, ENOMEM,
			"no memory for drafted trees of %u rows", rows);
	return tree_open(&c->tree, nodes, k, e);
}

void cycle_bind(struct cycle *c, struct generation *g, uint32_t sequence)
{
	*c = (struct cycle){ .session = c->session,
		.env = c->env,
		.source = c->source,
		.rows = c->rows,
		.most = c->rows,
		.own = c->own,
		.tree = c->tree,
		.build = c->build,
		.path = c->path,
		.merit = c->merit,
		.score = c->score,
		.known = c->known,
		.gen = g,
		.sequence = sequence };
	c->passed_at = cycle_now(c);
	memset(c->own, 0, c->env->method->lane_bytes);
}

void cycle_close(struct cycle *c)
{
	tree_close(c->tree);
	build_release(&c->build);
	free(c->own);
	free(c->path);
	free(c->score);
	free(c->merit);
	free(c->known);
}
