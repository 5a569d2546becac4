#include "host/draft/draft_impl.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/hugemem.h"
#include "base/workers.h"
#include "host/draft/guess.h"
#include "host/model/model.h"
#include "host/model/shapes.h"
#include "host/tree/tree.h"
#include "tensor/kern.h"
#include "tensor/soc/price_host.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ------------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static int alloc_cache(struct draft_model *d, struct err *e)
{
	size_t n = 2 * (size_t)d->model->n_layer * d->kv_row;

	d->token = malloc(d->context * sizeof(*d->token));
	d->row = malloc(d->context * sizeof(*d->row));
	if (!d->borrows)
		d->slot = malloc((size_t)d->context *
			workers_count(d->workers) * sizeof(*d->slot));
	if (!size_mul(&n, n, d->context))
		d->kv = calloc(n, 1);
	if (d->model->target)
		d->state = calloc(
			d->context, d->model->n_embd * sizeof(*d->state));
	if (!d->token || !d->row || !d->slot || !d->kv ||
		(d->model->target && !d->state))
		return err_set(e, ENOMEM,
			"no memory for a draft model's cache of %u tokens; "
			"try a smaller --ctx",
			d->context);
	return 0;
}

static int alloc_activations(struct draft_model *d, struct err *e)
{
	const struct model *m = d->model;
	float *q8;
	const struct {
		float **at;
		size_t n;
	} part[] = {
		{ &d->x, (size_t)PASS_ROWS * m->n_embd },
		{ &d->h, (size_t)PASS_ROWS * m->n_embd },
		{ &d->pair, m->target ? (size_t)PASS_ROWS * 2 * m->n_embd : 0 },
		{ &d->q, (size_t)PASS_ROWS * d->q_dim },
		{ &d->seen, (size_t)PASS_ROWS * d->q_dim },
		{ &d->k, (size_t)PASS_ROWS * d->kv_dim },
		{ &d->v, (size_t)PASS_ROWS * d->kv_dim },
		{ &d->gate, (size_t)PASS_ROWS * m->n_ff },
		{ &d->up, (size_t)PASS_ROWS * m->n_ff },
		{ &d->cos, (size_t)PASS_ROWS * (m->n_rot / 2) },
		{ &d->sin, (size_t)PASS_ROWS * (m->n_rot / 2) },
		{ &d->logits, m->n_vocab },
		{ &d->scratch, workers_count(d->workers) * d->scratch_floats },
		{ &q8, d->int8 ? PASS_ROWS * d->q8_bytes / sizeof(float) : 0 },
	};
	size_t total = 0;
	float *at;

	for (size_t i = 0; i < ARRAY_LEN(part); i++)
		total += align_up(part[i].n, DRAFT_ALIGN / sizeof(float));
	d->activations = at = hugemem_alloc(total * sizeof(*at));
	if (!at)
		return err_set(e, ENOMEM,
			"no memory for %zu activations of a draft model",
			total);
	for (size_t i = 0; i < ARRAY_LEN(part); i++) {
		*part[i].at = at;
		at += align_up(part[i].n, DRAFT_ALIGN / sizeof(float));
	}
	d->q8 = (uint8_t *)q8;
	return 0;
}

/* Size in floats of one thread's workspace: the largest size that any kernel
 * needs. */
static size_t scratch_floats(const struct model *m, uint32_t widest)
{
	size_t n = kern_multiply_scratch(widest) / sizeof(float);
	size_t attend =
		kern_attend_scratch(m->n_head / m->n_kv_head, m->head_dim);

	return align_up(n > attend ? n : attend, DRAFT_ALIGN / sizeof(float));
}

int draft_open(struct draft_model **out, const struct model *m,
	const struct model *target, enum draft_arithmetic arithmetic,
	uint32_t context, uint32_t threads, struct err *e)
{
	struct draft_model *d;
	uint32_t widest;
	int ret;

	assert(m->token_embd->data);
	if (!m->causal)
		return err_set(e, EINVAL,
			"a model of architecture '%s' cannot draft: it does "
			"not generate from left to right",
			m->arch);
	if (target && m->n_vocab != target->n_vocab)
		return err_set(e, EINVAL,
			"the draft model's vocabulary has %u tokens, the "
			"target's has %u; they must be the same; try "
			"another --draft, such as sam, which needs no model",
			m->n_vocab, target->n_vocab);
	d = calloc(1, sizeof(*d));
	if (!d)
		return err_set(e, ENOMEM, "no memory for a draft model");
	d->model = m;
	d->q_dim = m->n_head * m->head_dim;
	d->kv_dim = m->n_kv_head * m->head_dim;
	d->context = context && context < m->n_ctx ? context : m->n_ctx;
	widest = larger(m->target ? 2 * m->n_embd : m->n_embd,
		larger(m->n_ff, d->q_dim));
	d->scratch_floats = scratch_floats(m, widest);
	d->int8 = arithmetic == DRAFT_INT8;
	d->kv_row = d->kv_dim * (d->int8 ? sizeof(uint16_t) : sizeof(float));
	d->q8_bytes = kern_q8_bytes(widest);
	if ((ret = kern_select(&d->kern, e)) ||
		(ret = workers_open(&d->workers,
			 threads ? threads : workers_online(), e)) ||
		(ret = draft_weights_init(
			 &d->weights, m, arithmetic, d->workers, e)) ||
		(ret = alloc_cache(d, e)) || (ret = alloc_activations(d, e))) {
		draft_close(d);
		return ret;
	}
	*out = d;
	return 0;
}

int draft_open_like(struct draft_model **out, const struct draft_model *first,
	struct err *e)
{
	struct draft_model *d = malloc(sizeof(*d));
	int ret;

	if (!d)
		return err_set(e, ENOMEM, "no memory for a draft model");
	*d = *first;
	d->borrows = true;
	d->n = d->rows = 0;
	d->token = NULL;
	d->row = NULL;
	d->kv = NULL;
	d->state = NULL;
	d->price = (struct price){ 0 };
	ret = alloc_cache(d, e);
	if (ret) {
		draft_close(d);
		return ret;
	}
	*out = d;
	return 0;
}

void draft_close(struct draft_model *d)
{
	if (!d)
		return;
	if (!d->borrows) {
		workers_close(d->workers);
		draft_weights_release(&d->weights);
		free(d->slot);
		free(d->activations);
	}
	free(d->token);
	free(d->row);
	free(d->kv);
	free(d->state);
	free(d);
}

/* ---- costs, states of EAGLE heads, cached tokens ------------------------- */

static int check_tokens(const struct draft_model *d, const int32_t *token,
	size_t n, struct err *e)
{
	uint32_t n_vocab = d->model->n_vocab, held = d->n + d->rows;

	if (n > d->context - held)
		return err_set(e, ENOSPC,
			"the draft model's context of %u tokens is full: %u "
			"tokens are in it, and %zu more do not fit",
			d->context, held, n);
	for (size_t i = 0; i < n; i++)
		if (token[i] < 0 || (uint32_t)token[i] >= n_vocab)
			return err_set(e, EINVAL,
				"token %d is not in the draft model's "
				"vocabulary of %u",
				token[i], n_vocab);
	return 0;
}

void draft_price_for(struct draft_model *d, const struct soc *soc,
	const struct shape *as, struct shape_type type)
{
	const struct model *m = d->model;

	d->soc = soc;
	d->priced_type = as ? type : (struct shape_type){ 0 };
	d->priced_layers = as && !m->target ? as->n_layer : m->n_layer;
	d->priced_vocab = as ? as->n_vocab : m->n_vocab;
	d->priced = (struct price_layer){
		.n_embd = as ? as->n_embd : m->n_embd,
		.n_head = as ? as->n_head : m->n_head,
		.n_kv_head = as ? as->n_kv_head : m->n_kv_head,
		.head_dim = as ? as->head_dim : m->head_dim,
		.n_ff = as ? as->n_ff : m->n_ff,
	};
}

void draft_take_price(struct draft_model *d, struct price *sum)
{
	price_add(sum, &d->price);
	d->price = (struct price){ 0 };
}

void draft_price_guesses(struct draft_model *d, uint32_t rows)
{
	struct price p;

	if (!d->soc)
		return;
	price_top(d->soc, rows, d->priced_vocab, TREE_CANDIDATES, &p);
	price_add(&d->price, &p);
}

static float *state_at(const struct draft_model *d, uint32_t slot)
{
	return d->state ? d->state + (size_t)slot * d->model->n_embd : NULL;
}

bool draft_is_eagle(const struct draft_model *d)
{
	return d->model->target;
}

void draft_put_state(struct draft_model *d, uint32_t at, const float *hidden)
{
	const struct model *target = d->model->target;

	assert(at < d->context);
	d->kern->rmsnorm(state_at(d, at), hidden, d->weights.target_norm.data,
		target->n_embd, target->norm_eps);
}

void draft_begin(struct draft_model *d, int32_t token)
{
	assert(!d->n && d->model->target);
	d->rows = 0;
	d->token[d->n++] = token;
}

uint32_t draft_context(const struct draft_model *d)
{
	return d->context;
}

uint32_t draft_n_vocab(const struct draft_model *d)
{
	return d->model->n_vocab;
}

const int32_t *draft_tokens(const struct draft_model *d, uint32_t *n)
{
	*n = d->n;
	return d->token;
}

/* Add a row after the cached tokens and earlier rows, without computing the
 * row. */
static void add_row(struct draft_model *d, int32_t token, int32_t parent)
{
	uint32_t row = d->rows++;

	assert(parent >= -1 && parent < (int32_t)row);
	d->token[d->n + row] = token;
	d->row[row] = (struct draft_row){ parent,
		parent < 0 ? 0 : d->row[parent].depth + 1 };
}

/* Compute the logits of row[n] of the last pass. For an EAGLE head, also store
 * the head's own states of these rows in state[n], because the children of a
 * row are computed from its state. */
static void put_logits(struct draft_model *d, const uint32_t *row,
	float *const *state, uint32_t n, float *logits)
{
	uint32_t n_embd = d->model->n_embd;

	draft_logits(d, row, n, logits);
	for (uint32_t i = 0; i < n && d->state; i++)
		memcpy(state[i], d->h + (size_t)i * n_embd,
			n_embd * sizeof(*d->h));
}

_Static_assert(DRAFT_ASK_ROWS == PASS_ROWS, "a pass holds all rows of a call");

int draft_append(struct draft_model *d, const int32_t *token, size_t n,
	const float **logits, struct err *e)
{
	uint32_t rows = 0;
	int ret;

	assert(n > 0);
	d->rows = 0;
	ret = check_tokens(d, token, n, e);
	if (ret)
		return ret;
	for (size_t i = 0; i < n; i += rows) {
		rows = n - i < PASS_ROWS ? (uint32_t)(n - i) : PASS_ROWS;
		for (uint32_t r = 0; r < rows; r++)
			add_row(d, token[i + r], (int32_t)r - 1);
		draft_pass(&(struct draft_part){ d, 0, rows }, 1);
		/* The rows of a chain are in the cache slots directly after the
		 * cached tokens, so increasing d->n makes them cached
		 * tokens. */
		d->n += rows;
		d->rows = 0;
	}
	put_logits(d, &(uint32_t){ rows - 1 },
		&(float *){ state_at(d, d->n - 1) }, 1, d->logits);
	*logits = d->logits;
	return 0;
}

void draft_truncate(struct draft_model *d, uint32_t length)
{
	d->rows = 0;
	if (length < d->n)
		d->n = length;
}

int draft_follow(struct draft_model *d, const int32_t *token, size_t n,
	const float **logits, struct err *e)
{
	uint32_t same;

	/* Always compute the last token, even if it is cached, because its
	 * logits are needed. */
	same = (uint32_t)text_common(d->token, d->n, token, n - 1);
	draft_truncate(d, same);
	return draft_append(d, token + same, n - same, logits, e);
}

/* ---- rows of several models, rows of drafted trees ----------------------- */

int draft_together(
	struct draft_ask *ask, unsigned n, float *logits, struct err *e)
{
	struct draft_part part[DRAFT_ASK_ROWS] = { 0 };
	uint32_t wanted[DRAFT_ASK_ROWS], n_wanted = 0, rows = 0;
	float *state[DRAFT_ASK_ROWS];

	for (unsigned i = 0; i < n; i++) {
		struct draft_model *d = ask[i].draft;
		int ret;

		if (!ask[i].parent)
			d->rows = 0;
		ret = check_tokens(d, ask[i].token, ask[i].n, e);
		if (ret)
			return ret;
	}
	for (unsigned i = 0; i < n; i++) {
		struct draft_ask *a = &ask[i];

		a->first = a->draft->rows;
		part[i] = (struct draft_part){ a->draft, a->first, a->n };
		for (uint32_t r = 0; r < a->n; r++, rows++) {
			assert(rows < DRAFT_ASK_ROWS);
			add_row(a->draft, a->token[r],
				a->parent ? a->parent[r] : (int32_t)r - 1);
			if (!a->parent && r + 1 < a->n)
				continue;
			state[n_wanted] =
				state_at(a->draft, a->draft->n + a->first + r);
			wanted[n_wanted++] = rows;
		}
	}
	draft_pass(part, n);
	put_logits(ask[0].draft, wanted, state, n_wanted, logits);
	for (unsigned i = 0; i < n; i++)
		/* turn appended rows (those without `parent`) into cached
		 * tokens, as draft_append does */
		if (!ask[i].parent) {
			ask[i].draft->n += ask[i].n;
			ask[i].draft->rows = 0;
		}
	return 0;
}

uint32_t draft_branch_rows(const struct draft_model *d)
{
	return d->rows;
}

void draft_keep(struct draft_model *d, const uint32_t *row, uint32_t n)
{
	size_t halves = 2 * (size_t)d->model->n_layer;
	int32_t above = -1;

	assert(!n || !d->state);
	for (uint32_t i = 0; i < n; i++) {
		assert(row[i] < d->rows && d->row[row[i]].parent == above);
		above = (int32_t)row[i];
		d->token[d->n + i] = d->token[d->n + row[i]];
	}
	/* A kept row stays in its slot or moves to a lower slot, so copying in
	 * ascending order overwrites no row that is still to be copied. */
	for (size_t i = 0; i < halves; i++) {
		uint8_t *kv = d->kv + (i * d->context + d->n) * d->kv_row;

		for (uint32_t r = 0; r < n; r++)
			if (row[r] != r)
				memcpy(kv + r * d->kv_row,
					kv + row[r] * d->kv_row, d->kv_row);
	}
	d->n += n;
	d->rows = 0;
}
