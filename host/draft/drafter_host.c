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
	bool owned; /* the draft model is ours to close */
	float temperature;
	uint32_t batch;          /* nodes of a pass at most */
	struct guesses found;    /* its rows are those on trial */
	int32_t *token, *parent; /* [batch] of a pass */
	float *logits;           /* [batch][n_vocab] */
	uint32_t *path;          /* [context] */
};

/* ---- the root ------------------------------------------------------------ */

/* The draft's cache as far as the text goes along it and its rows. */
static void reuse(struct host *h, const int32_t *text, size_t n)
{
	uint32_t held, kept;
	const int32_t *token = draft_tokens(h->draft, &held);
	size_t same = text_common(text, n, token, held);

	if (same < held) {
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

static int host_begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	struct host *h = arg;
	const float *logits;
	int ret;

	assert(n > 0);
	tree_reset(t, text[n - 1]);
	if (n > draft_context(h->draft))
		return 0;
	reuse(h, text, n);
	if (!h->found.root.n) {
		ret = draft_follow(h->draft, text, n, &logits, e);
		if (ret)
			return ret;
		guess_logits(&h->found.root, logits, draft_n_vocab(h->draft),
			h->temperature);
		draft_price_guesses(h->draft, 1);
	}
	guess_put(&h->found.root, t, 0);
	return 0;
}

/* ---- nodes --------------------------------------------------------------- */

static int look(struct host *h, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	uint32_t n_vocab = draft_n_vocab(h->draft), first;
	int ret = guesses_reserve(&h->found, n, e);

	for (uint32_t i = 0; i < n; i++) {
		h->token[i] = t->token[node[i]];
		h->parent[i] = guesses_above(t, node[i]);
	}
	if (!ret)
		ret = draft_branch(
			h->draft, h->token, h->parent, n, &first, h->logits, e);
	if (!ret)
		draft_price_guesses(h->draft, n);
	for (uint32_t i = 0; !ret && i < n; i++) {
		uint32_t row =
			guesses_add(&h->found, h->token[i], h->parent[i]);

		assert(row == first + i);
		guess_logits(&h->found.row[row].guess,
			h->logits + (size_t)i * n_vocab, n_vocab,
			h->temperature);
		guess_put(&h->found.row[row].guess, t, node[i]);
		t->row[node[i]] = row;
	}
	return ret;
}

/* Rows on trial that the draft's context still has room for. */
static uint32_t room(const struct host *h)
{
	uint32_t held;

	draft_tokens(h->draft, &held);
	return draft_context(h->draft) - held - draft_branch_rows(h->draft);
}

static int host_expand(void *arg, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	struct host *h = arg;
	uint32_t fit = room(h) < n ? room(h) : n, some;
	int ret = 0;

	for (uint32_t i = 0; i < fit && !ret; i += some) {
		some = fit - i < h->batch ? fit - i : h->batch;
		ret = look(h, t, node + i, some, e);
	}
	for (uint32_t i = fit; i < n; i++)
		t->n_candidates[node[i]] = 0;
	return ret;
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

/* ---- as a kind ----------------------------------------------------------- */

static int open_draft(
	struct draft_model **out, const struct draft_site *site, struct err *e)
{
	const struct session_opts *o = site->session_opts;
	const struct shape *as = drafting_as(site->options);
	const struct host *like = site->like ? site->like->arg : NULL;
	int ret;

	if (like)
		return draft_open_like(out, like->draft, e);
	ret = draft_open(out, site->file, site->target,
		o->precision == WIRE_INT8 ? DRAFT_INT8 : DRAFT_F32,
		session_context(site->session), o->threads, e);
	if (ret)
		return err_in(e, "'%s'", site->path);
	draft_price_for(*out, o->soc, as);
	if (as)
		draft_price_type(*out, o->as_type);
	return 0;
}

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	const struct drafting_options *o = site->options;
	struct draft_model *draft;
	struct host *h;
	int ret = open_draft(&draft, site, e);

	if (ret)
		return ret;
	ret = drafter_host_open(out, draft, o->batch, e);
	if (ret) {
		draft_close(draft);
		return ret;
	}
	h = out->arg;
	h->owned = true;
	drafter_host_temperature(out, (float)o->temperature);
	return 0;
}

const struct draft_kind draft_kind_host = {
	.summary = "a draft model on the host",
	.open = open_kind,
};
