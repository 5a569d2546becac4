/*
 * Diffusion decoding of one request: blocks of mask tokens, the rows that a
 * pass (a run of the model) computes, the guesses of tokens for the masks, and
 * the choice of the guesses that become text.
 */
#include "host/scheduler/denoising.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/scheduler/method.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/json_form.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* for a model that was trained with blocks: the decode graph has one row for
 * each position of this many blocks */
#define BLOCKS 4

/* ---- options ------------------------------------------------------------- */

/* clang-format off */
static const struct opt block_rows[] = {
	{ OPT_UINT, 0, "block", OPT_IN(block_options, length), "N",
		"length of a diffusion block: number of token positions that "
		"are decoded together ({})",
		1, WIRE_MAX_ROWS },
};

static const struct opt canvas_rows[] = {
	{ OPT_UINT, 0, "canvas", OPT_IN(canvas_options, length), "N",
		"methods llada, fast-dllm, and block with --no-cache: number "
		"of positions that every pass computes after the prompt; those "
		"after the current block are masks (0: only blocks up to the "
		"current one)",
		0, WIRE_MAX_ROWS },
};

static const struct opt steps_rows[] = {
	{ OPT_UINT, 0, "block-steps", OPT_IN(steps_options, steps), "N",
		"largest number of passes for a diffusion block (0: as many as "
		"it has positions)",
		0, WIRE_MAX_ROWS },
	{ OPT_CHOICE, 0, "order", OPT_IN(steps_options, order), NULL,
		"which guesses (tokens predicted for masked positions) are "
		"fixed, or made final, first ({}): the most probable, those "
		"with the largest margin to the second candidate, the least "
		"entropy, or random ones",
		.choices = guess_orders },
};

static const struct opt threshold_rows[] = {
	{ OPT_FLOAT, 0, "threshold", OPT_IN(threshold_options, threshold), "P",
		"make every guess (predicted token) of at least probability P "
		"final (0.9; with --method block: off, see --block-steps)",
		0, 1 },
};

static const struct opt refresh_rows[] = {
	{ OPT_UINT, 0, "refresh-every", OPT_IN(refresh_options, every), "N",
		"methods multi-block and fast-dllm: recompute the keys and "
		"values of all positions in every N-th pass (0: never)",
		0, UINT32_MAX },
};
/* clang-format on */

const struct opt_table block_table = {
	.heading = "diffusion",
	.rows = block_rows,
	.n = ARRAY_LEN(block_rows),
	.defaults = &(const struct block_options){ .length = DENOISING_LENGTH },
	.size = sizeof(struct block_options),
};

const struct opt_table canvas_table = {
	.heading = "diffusion",
	.rows = canvas_rows,
	.n = ARRAY_LEN(canvas_rows),
	.defaults = &(const struct canvas_options){ 0 },
	.size = sizeof(struct canvas_options),
};

const struct opt_table steps_table = {
	.heading = "diffusion",
	.rows = steps_rows,
	.n = ARRAY_LEN(steps_rows),
	.defaults = &(const struct steps_options){ 0 },
	.size = sizeof(struct steps_options),
};

const struct opt_table threshold_table = {
	.heading = "diffusion",
	.rows = threshold_rows,
	.n = ARRAY_LEN(threshold_rows),
	.defaults = &(const struct threshold_options){ .threshold = -1 },
	.size = sizeof(struct threshold_options),
};

const struct opt_table refresh_table = {
	.heading = "diffusion",
	.rows = refresh_rows,
	.n = ARRAY_LEN(refresh_rows),
	.defaults = &(const struct refresh_options){ 0 },
	.size = sizeof(struct refresh_options),
};

uint32_t denoising_length(const struct method_env *env)
{
	const struct block_options *o = method_options(env, &block_table);

	return o->length;
}

int denoising_open_blocks(
	struct method_env *env, const struct model *m, struct err *e)
{
	struct block_state *state = env->state;
	uint32_t given = denoising_length(env);

	state->by_block = m->block_length > 0;
	state->length = state->by_block ? m->block_length : given;
	if (given == state->length || given == DENOISING_LENGTH)
		return 0;
	return err_set(e, EINVAL,
		"--block %u, but the model was trained with blocks of %u "
		"positions; leave --block out",
		given, m->block_length);
}

/* The session limits the returned number to the rows of its largest graph. */
uint32_t denoising_all_rows(const struct method_env *env)
{
	return WIRE_MAX_ROWS;
}

uint32_t denoising_block_rows(const struct method_env *env)
{
	const struct block_state *state = env->state;
	uint32_t rows = BLOCKS * state->length;

	return state->by_block && rows < WIRE_MAX_ROWS ? rows : WIRE_MAX_ROWS;
}

double denoising_threshold(const struct method_env *env, double otherwise)
{
	const struct threshold_options *o =
		method_options(env, &threshold_table);

	return o->threshold >= 0 ? o->threshold : otherwise;
}

/* ---- opening a request --------------------------------------------------- */

int denoising_open(struct denoising **out, struct session *s,
	struct method_env *env, struct generation *g, uint32_t sequence,
	struct err *e)
{
	const struct model *m = session_model(s);
	struct denoising *d = calloc(1, sizeof(*d));
	int ret;

	*out = NULL;
	if (!d)
		return err_set(e, ENOMEM,
			"no memory for the state of a diffusion request");
	*d = (struct denoising){
		.session = s,
		.env = env,
		.gen = g,
		.sequence = sequence,
		.own = calloc(1, env->method->lane_bytes + 1),
		.guessing = { .sampling = gen_sampling(g),
			.n_vocab = m->n_vocab,
			.mask = m->mask_token },
		.shift = m->shift_logits,
		.mask = m->mask_token,
	};
	ret = d->own
		? env->method->denoise->start(d, e)
		: err_set(e, ENOMEM,
			  "no memory for the state of a diffusion request");
	if (ret)
		denoising_close(d);
	else
		*out = d;
	return ret;
}

void denoising_close(struct denoising *d)
{
	if (!d)
		return;
	if (d->own && d->env->method->denoise->finish)
		d->env->method->denoise->finish(d);
	free(d->own);
	free(d->x);
	free(d->at);
	free(d->row);
	free(d->guess);
	free(d->carried);
	free(d);
}

int denoising_reserve(struct denoising *d, uint32_t limit, struct err *e)
{
	const struct sampler_opts *o = d->guessing.sampling;

	d->limit = limit;
	d->x = malloc(limit * sizeof(*d->x));
	d->at = malloc(limit * sizeof(*d->at));
	d->row = malloc(limit * sizeof(*d->row));
	d->guess = malloc(limit * sizeof(*d->guess));
	d->carried = malloc(d->guessing.n_vocab * sizeof(*d->carried));
	if (!d->x || !d->at || !d->row || !d->guess || !d->carried)
		return err_set(e, ENOMEM,
			"no memory for the %u positions of a diffusion text",
			limit);
	if (!d->env->method->diffusion ||
		(!o->top_k && o->top_p == 1 && o->min_p == 0 &&
			o->repeat_penalty == 1 && !o->n_bias &&
			o->presence_penalty == 0 && o->frequency_penalty == 0))
		return 0;
	return err_set(e, EINVAL,
		"the method %s draws from the model's unchanged distribution "
		"over all tokens: --top-k, --top-p, --min-p, --repeat-penalty, "
		"logit biases and penalties do not apply; leave them out",
		d->env->method->name);
}

uint32_t denoising_whole_limit(const struct session *s)
{
	uint32_t context = session_context(s), rows = session_max_rows(s);

	return rows < context ? rows : context;
}

int denoising_check_room(const struct denoising *d, struct err *e)
{
	uint32_t trained = session_model(d->session)->n_ctx;
	size_t n;

	gen_tokens(d->gen, &n);
	if (n < d->limit)
		return 0;
	return err_set(e, ENOSPC,
		"a pass of a diffusion model computes all positions at once, "
		"at most %u here, but prompt and output have %zu; try a "
		"shorter prompt%s",
		d->limit, n, n < trained ? " or a larger --ctx" : "");
}

/*
 * The last block may extend beyond the last token that the request wants, and a
 * pass may compute one block more. So the request needs cache slots for its
 * tokens, for two more blocks, and for the positions of --canvas.
 */
uint32_t denoising_growth(const struct session *s, const struct method_env *env,
	const struct generation *g, uint32_t sequence)
{
	const struct canvas_options *canvas =
		method_options(env, &canvas_table);
	uint64_t block = session_model(s)->block_length;
	uint32_t length = session_length(s, sequence);
	uint64_t most;
	size_t n;

	gen_tokens(g, &n);
	if (block < denoising_length(env))
		block = denoising_length(env);
	most = n + (uint64_t)gen_left(g) + 2 * block + canvas->length;
	if (most > session_context(s))
		most = session_context(s);
	return most > length ? (uint32_t)most - length : 0;
}

/* ---- planning a pass ----------------------------------------------------- */

void denoising_begin(struct denoising *d, uint32_t length)
{
	size_t n;
	const int32_t *text = gen_tokens(d->gen, &n);

	assert(length && n < d->limit);
	memcpy(d->x, text, n * sizeof(*text));
	d->begin = (uint32_t)n;
	d->end = d->begin +
		(length < d->limit - d->begin ? length : d->limit - d->begin);
	d->last = d->begin;
	denoising_extend(d, d->end - d->begin);
	d->pass = 0;
}

int denoising_next_block(struct denoising *d, uint32_t length, struct err *e)
{
	int ret;

	if (d->begin < d->end)
		return 0;
	ret = denoising_check_room(d, e);
	if (!ret)
		denoising_begin(d, length);
	return ret;
}

void denoising_lay_canvas(struct denoising *d)
{
	const struct canvas_options *o = method_options(d->env, &canvas_table);
	size_t prompt = gen_prompt_length(d->gen);

	if (prompt + o->length > d->last)
		denoising_extend(d, (uint32_t)prompt + o->length - d->last);
}

void denoising_extend(struct denoising *d, uint32_t masks)
{
	uint32_t room = d->limit - d->last;

	for (uint32_t n = masks < room ? masks : room; n; n--)
		d->x[d->last++] = d->mask;
}

void denoising_rows(struct denoising *d, enum visibility visibility,
	uint32_t from, uint32_t to)
{
	d->visibility = visibility;
	d->clear_cache = false;
	d->n_rows = to - from;
	d->n_at = 0;
	for (uint32_t i = 0; i < d->n_rows; i++)
		d->row[i] = (struct row){ .token = d->x[from + i],
			.position = from + i };
}

void denoising_whole_pass(struct denoising *d)
{
	denoising_rows(d, VISIBILITY_WINDOW, 0, d->last);
	d->clear_cache = true;
}

void denoising_predict_masks(struct denoising *d, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		if (d->x[i] == d->mask)
			d->at[d->n_at++] = i;
}

/* ---- guesses ------------------------------------------------------------- */

bool denoising_row_of(const struct denoising *d, uint32_t i, uint32_t *row)
{
	/* No row precedes the first position of a text, so that position is
	 * predicted by its own row, even if rows predict the next position
	 * (shift = 1). */
	uint32_t at = d->at[i], position = at ? at - d->shift : 0;
	uint32_t low = 0, high = d->n_rows;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (d->row[middle].position < position)
			low = middle + 1;
		else
			high = middle;
	}
	*row = low;
	if (low < d->n_rows && d->row[low].position == position)
		return true;
	assert(!i && at == d->carried_at);
	return false;
}

void denoising_begin_guesses(struct denoising *d)
{
	size_t n;

	gen_tokens(d->gen, &n);
	d->next_of_form = (uint32_t)n;
	d->form = gen_form(d->gen, &d->place);
}

void denoising_guess(struct denoising *d, uint32_t i, const float *logits)
{
	struct guess *g = &d->guess[i];

	if (d->form && d->at[i] == d->next_of_form)
		logits = json_form_mask(
			d->form, &d->place, logits, d->guessing.n_vocab);
	else if (d->form)
		logits = NULL;
	if (!logits) {
		*g = (struct guess){ .at = d->at[i], .score = -INFINITY };
		return;
	}
	guess_from(&d->guessing, logits, d->at[i], d->pass, g);
	/* The position after this one can be guessed in this pass only if the
	 * grammar allows the token guessed here, and the token ends neither the
	 * text nor the JSON value. */
	if (d->form && !gen_ends(d->gen, g->token) &&
		json_form_take(d->form, &d->place, g->token) &&
		!json_is_over(json_form_machine(d->form), &d->place))
		d->next_of_form++;
}

int denoising_carry_logits(
	struct denoising *d, uint32_t row, uint32_t at, struct err *e)
{
	row += d->first;
	d->carried_at = at;
	return session_logits_rows(d->session, &row, 1, &d->carried, e);
}

static int position_order(const void *pa, const void *pb)
{
	const struct guess *a = pa, *b = pb;

	return a->at < b->at ? -1 : a->at > b->at;
}

void denoising_commit(struct denoising *d, uint32_t n)
{
	/*
	 * A text with a grammar (such as JSON) is committed from left to right
	 * without gaps. Of the first n guesses, keep those for consecutive
	 * positions from the first mask on; if none of them is for the first
	 * mask, keep the leftmost of all guesses.
	 */
	if (d->form && d->n_at) {
		uint32_t first = 0, kept = 1;
		size_t at;

		gen_tokens(d->gen, &at);
		for (uint32_t i = 1; i < d->n_at; i++)
			if (d->guess[i].at < d->guess[first].at)
				first = i;
		if (first < n) {
			qsort(d->guess, n, sizeof(*d->guess), position_order);
			while (kept < n && d->guess[kept].at == at + kept &&
				d->guess[kept].score > -INFINITY)
				kept++;
		} else {
			guesses_exchange(d->guess, 0, first);
		}
		n = kept;
	}
	session_count_valid(d->session, n);
	for (uint32_t i = 0; i < n; i++)
		d->x[d->guess[i].at] = d->guess[i].token;
}

uint32_t denoising_choose(struct denoising *d, double threshold, uint32_t left)
{
	if (threshold >= 0)
		return guesses_over(d->guess, d->n_at, threshold);
	guesses_sort(d->guess, d->n_at);
	/* The number of remaining passes, `left`, may be 0 although masks
	 * remain: with a grammar, earlier passes may have committed fewer
	 * guesses than planned. */
	left = left ? left : 1;
	return d->n_at / left + (d->n_at % left ? 1 : 0);
}

void denoising_report(const struct denoising *d, uint32_t to)
{
	uint8_t mark[WIRE_MAX_ROWS];
	struct gen_step step = { .mark = mark };

	if (!gen_is_watched(d->gen))
		return;
	gen_tokens(d->gen, &step.first);
	step.n = to - (uint32_t)step.first;
	step.token = d->x + step.first;
	for (uint32_t i = 0; i < step.n; i++)
		mark[i] = step.token[i] == d->mask ? GEN_MASK : GEN_STABLE;
	gen_step(d->gen, &step);
}

uint32_t denoising_emit(struct denoising *d, uint32_t end)
{
	size_t at;

	for (gen_tokens(d->gen, &at); at < end && d->x[at] != d->mask; at++)
		gen_append(d->gen, d->x[at]);
	return (uint32_t)at;
}

void denoising_end_block(struct denoising *d)
{
	if (denoising_emit(d, d->end) == d->end)
		d->begin = d->end;
}
