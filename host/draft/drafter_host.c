#include "host/draft/drafter_host.h"

#include "base/err.h"
#include "host/draft/draft_kind.h"
#include "host/draft/draft_model.h"
#include "host/draft/drafting.h"
#include "host/draft/guess.h"
#include "host/session/session.h"
#include "host/tree/drafter.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct host {
	struct draft_model *draft;
	/* whether to close the draft model when the drafter is closed */
	bool owned;
	/* For an EAGLE head: the target's session, and the number of the
	 * session's sequence that holds the text. `session` is NULL for other
	 * draft models. */
	struct session *session;
	uint32_t sequence;
	float temperature;
	uint32_t batch; /* maximum number of nodes per pass */
	/* guesses after computed rows; row i of `found` is the draft model's
	 * uncommitted row i (a row that is not a cached token yet) */
	struct guesses found;
	int32_t *token, *parent; /* [batch] the nodes of a pass */
	float *logits;           /* [batch][n_vocab] */
	uint32_t *path;          /* [context] for results of guesses_follow */
};

/* ---- expanding the root -------------------------------------------------- */

/* If the new sequence continues the cached sequence, move the uncommitted rows
 * of the added tokens into the cache, up to the first added token without a
 * row. Otherwise drop all guesses. Rows of an EAGLE head were computed from the
 * head's own states, so they are dropped, and are computed again from the
 * target's states. */
static void reuse(struct host *h, const int32_t *text, size_t n)
{
	uint32_t held, kept;
	const int32_t *token = draft_tokens(h->draft, &held);
	size_t same = text_common(text, n, token, held);

	if (same < held || (h->session && n > held)) {
		guesses_forget(&h->found);
		return;
	}
	kept = guesses_follow(&h->found, text + held, n - held, h->path);
	draft_keep(h->draft, h->path, kept);
}

static void host_saw(void *arg, const int32_t *text, size_t n)
{
	struct host *h = arg;

	if (n <= draft_context(h->draft))
		reuse(h, text, n);
}

static void set_root(struct host *h, const float *logits)
{
	guess_logits(&h->found.root, logits, draft_n_vocab(h->draft),
		h->temperature);
	draft_price_guesses(h->draft, 1);
}

/* The roots of several trees. A root is the last token of a request's sequence.
 * One pass computes all these roots. */
struct roots {
	struct host *host[DRAFT_ASK_ROWS];
	struct draft_ask ask[DRAFT_ASK_ROWS];
	uint32_t n, rows;
};

static int compute_roots(struct roots *r, struct err *e)
{
	const float *logits = r->n ? r->host[0]->logits : NULL;
	int ret = 0;

	if (r->n)
		ret = draft_together(r->ask, r->n, r->host[0]->logits, e);
	for (uint32_t i = 0; i < r->n && !ret; i++) {
		set_root(r->host[i], logits);
		logits += draft_n_vocab(r->host[i]->draft);
	}
	r->n = r->rows = 0;
	return ret;
}

static int host_begin_all(
	const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	struct roots r = { .n = 0 };
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++) {
		struct host *h = ask[i].arg;
		const int32_t *text = ask[i].text;
		size_t length = ask[i].n_text;
		const int32_t *token;
		uint32_t left, held;
		size_t same;

		assert(length > 0);
		tree_reset(ask[i].tree, text[length - 1]);
		if (length > draft_context(h->draft))
			continue;
		reuse(h, text, length);
		/* An EAGLE head has no row for the first token of a
		 * sequence. */
		if (h->found.root.n || (h->session && length == 1))
			continue;

		/* Truncate the cache to its common prefix with the sequence.
		 * The last token must always be computed, because its logits
		 * are needed. */
		token = draft_tokens(h->draft, &held);
		same = text_common(text, length - 1, token, held);
		draft_truncate(h->draft, (uint32_t)same);
		/* Rows of an EAGLE head need the target's states at the
		 * preceding positions. */
		if (h->session) {
			if (!same)
				draft_begin(h->draft, text[same++]);
			for (uint32_t at = (uint32_t)same - 1; at + 1 < length;
				at++)
				draft_put_state(h->draft, at,
					session_state(
						h->session, h->sequence, at));
		}
		left = (uint32_t)(length - same);

		if (left > DRAFT_ASK_ROWS) {
			const float *logits;

			/* The tokens do not fit into a shared pass; typically
			 * they are a prompt. Compute them in separate
			 * passes. */
			ret = draft_follow(h->draft, text, length, &logits, e);
			if (!ret)
				set_root(h, logits);
			continue;
		}
		if (r.rows + left > DRAFT_ASK_ROWS || r.n == h->batch)
			ret = compute_roots(&r, e);
		r.host[r.n] = h;
		r.ask[r.n++] = (struct draft_ask){ h->draft,
			text + length - left, .n = left };
		r.rows += left;
	}
	if (!ret)
		ret = compute_roots(&r, e);
	for (uint32_t i = 0; i < n && !ret; i++) {
		const struct host *h = ask[i].arg;

		if (ask[i].n_text <= draft_context(h->draft))
			guess_put(&h->found.root, ask[i].tree, 0);
	}
	return ret;
}

static void host_follow(void *arg, uint32_t sequence)
{
	struct host *h = arg;

	h->sequence = sequence;
}

static int host_begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	const struct drafter_ask ask = {
		.arg = arg, .tree = t, .text = text, .n_text = n
	};

	return host_begin_all(&ask, 1, e);
}

/* ---- expanding other nodes ----------------------------------------------- */

/* Nodes of several trees that one pass computes. Each tree contributes one
 * group of nodes. */
struct nodes {
	struct piece {
		struct host *host;
		struct tree *tree;
		const uint32_t *node;
	} piece[DRAFT_ASK_ROWS];
	struct draft_ask ask[DRAFT_ASK_ROWS];
	uint32_t n, rows;
};

static int compute_nodes(struct nodes *w, struct err *e)
{
	const float *logits = w->n ? w->piece[0].host->logits : NULL;
	int ret = 0;

	for (uint32_t i = 0; i < w->n && !ret; i++)
		ret = guesses_reserve(&w->piece[i].host->found, w->ask[i].n, e);
	if (!ret && w->n)
		ret = draft_together(w->ask, w->n, w->piece[0].host->logits, e);
	for (uint32_t i = 0; i < w->n && !ret; i++) {
		struct host *h = w->piece[i].host;
		struct tree *t = w->piece[i].tree;
		uint32_t n_vocab = draft_n_vocab(h->draft);

		draft_price_guesses(h->draft, w->ask[i].n);
		for (uint32_t k = 0; k < w->ask[i].n; k++) {
			uint32_t node = w->piece[i].node[k];
			uint32_t row = guesses_add(
				&h->found, h->token[k], h->parent[k]);

			assert(row == t->row[node]);
			guess_logits(&h->found.row[row].guess, logits, n_vocab,
				h->temperature);
			guess_put(&h->found.row[row].guess, t, node);
			logits += n_vocab;
		}
	}
	w->n = w->rows = 0;
	return ret;
}

static int host_expand_all(
	const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	struct nodes w = { .n = 0 };
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++) {
		struct host *h = ask[i].arg;
		struct tree *t = ask[i].tree;
		uint32_t most = h->batch, held, fit, first, some;

		if (most > DRAFT_ASK_ROWS)
			most = DRAFT_ASK_ROWS;
		/* Only `fit` nodes have room in the draft model's context. The
		 * other nodes get no candidates. */
		draft_tokens(h->draft, &held);
		fit = draft_context(h->draft) - held -
			draft_branch_rows(h->draft);
		fit = fit < ask[i].n ? fit : ask[i].n;
		for (uint32_t k = fit; k < ask[i].n; k++)
			t->n_candidates[ask[i].node[k]] = 0;
		for (uint32_t at = 0; at < fit && !ret; at += some) {
			const uint32_t *node = ask[i].node + at;

			/* A pass takes one group of nodes per tree, so start a
			 * new pass before a second group of the same tree. */
			if (w.rows == most || at)
				ret = compute_nodes(&w, e);
			/* For an EAGLE head, the pass ends before the first
			 * node whose parent is a row of the same pass, because
			 * the node is computed from the parent's state. */
			first = draft_branch_rows(h->draft);
			for (some = 0; at + some < fit && w.rows + some < most;
				some++) {
				h->token[some] = t->token[node[some]];
				h->parent[some] = guesses_above(t, node[some]);
				if (h->session &&
					h->parent[some] >= (int32_t)first)
					break;
				t->row[node[some]] = first + some;
			}
			w.piece[w.n] = (struct piece){ h, t, node };
			w.ask[w.n++] = (struct draft_ask){ h->draft, h->token,
				h->parent, .n = some };
			w.rows += some;
		}
	}
	return ret ? ret : compute_nodes(&w, e);
}

static int host_expand(void *arg, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	const struct drafter_ask ask = {
		.arg = arg, .tree = t, .node = node, .n = n
	};

	return host_expand_all(&ask, 1, e);
}

/* ---- opening ------------------------------------------------------------- */

static void host_price(void *arg, struct price *sum)
{
	struct host *h = arg;

	draft_take_price(h->draft, sum);
}

static void host_close(void *arg)
{
	struct host *h = arg;

	if (!h)
		return;
	if (h->owned)
		draft_close(h->draft);
	guesses_release(&h->found);
	free(h->token);
	free(h->parent);
	free(h->logits);
	free(h->path);
	free(h);
}

int drafter_host_open(struct drafter *out, struct draft_model *draft,
	uint32_t batch, struct err *e)
{
	struct host *h = calloc(1, sizeof(*h));
	size_t row = draft_n_vocab(draft) * sizeof(*h->logits);
	uint32_t most = batch ? batch : DRAFT_TOGETHER;

	if (h) {
		h->draft = draft;
		h->temperature = 1;
		h->batch = most;
		h->token = malloc(most * sizeof(*h->token));
		h->parent = malloc(most * sizeof(*h->parent));
		h->logits = malloc(most * row);
		h->path = malloc(draft_context(draft) * sizeof(*h->path));
	}
	if (!h || !h->token || !h->parent || !h->logits || !h->path) {
		host_close(h);
		return err_set(
			e, ENOMEM, "no memory to draft %u nodes at once", most);
	}
	*out = (struct drafter){ .arg = h,
		.begin = host_begin,
		.expand = host_expand,
		.begin_all = host_begin_all,
		.expand_all = host_expand_all,
		.batch = batch ? batch : 1,
		.most = batch ? batch : DRAFT_WEIGHED,
		.saw = host_saw,
		.price = host_price,
		.close = host_close };
	return 0;
}

void drafter_host_temperature(struct drafter *d, float temperature)
{
	struct host *h = d->arg;

	assert(temperature > 0);
	h->temperature = temperature;
}

/* ---- the kind of drafter (draft_kind.h) ---------------------------------- */

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	const struct drafting_options *o = site->options;
	const struct session_opts *own = site->session_opts;
	struct draft_model *draft;
	struct host *h;
	int ret;

	if (site->like) {
		h = site->like->arg;
		ret = draft_open_like(&draft, h->draft, e);
	} else {
		ret = draft_open(&draft, site->file, site->target,
			own->precision == WIRE_INT8 ? DRAFT_INT8 : DRAFT_F32,
			session_context(site->session), own->threads, e);
		if (ret)
			return err_in(e, "'%s'", site->path);
		draft_price_for(draft, own->soc, drafting_as(o), own->as_type);
	}
	if (ret)
		return ret;
	if (draft_is_eagle(draft))
		ret = session_keep_states(site->session, e);
	if (!ret)
		ret = drafter_host_open(out, draft, o->batch, e);
	if (ret) {
		draft_close(draft);
		return ret;
	}
	h = out->arg;
	if (draft_is_eagle(draft)) {
		h->session = site->session;
		out->follow = host_follow;
	}
	h->owned = true;
	drafter_host_temperature(out, (float)o->temperature);
	return 0;
}

const struct draft_kind draft_kind_host = {
	.summary = "a draft model on the host",
	.open = open_kind,
};
