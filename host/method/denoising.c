#include "host/method/denoising.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TOGETHER 16 /* rows of logits: the matrix is read once for them */

/* ---- options ------------------------------------------------------------- */

/* clang-format off */
static const struct opt block_rows[] = {
	{ OPT_UINT, 0, "block", OPT_IN(block_options, length), "N",
		"positions of a block, which are decoded together ({})",
		1, WIRE_MAX_ROWS },
};

static const struct opt canvas_rows[] = {
	{ OPT_UINT, 0, "canvas", OPT_IN(canvas_options, length), "N",
		"masks after the prompt that every pass sees (0: those of "
		"the block)", 0, WIRE_MAX_ROWS },
};

static const struct opt steps_rows[] = {
	{ OPT_UINT, 0, "block-steps", OPT_IN(steps_options, steps), "N",
		"passes for a block, at most (0: as many as it has positions)", 0, WIRE_MAX_ROWS },
	{ OPT_CHOICE, 0, "order", OPT_IN(steps_options, order), NULL,
		"which guesses are fixed first ({}); the most probable, "
		"those with the largest margin to the second, those of least "
		"entropy, or random ones",
		.choices = guess_orders },
};

static const struct opt threshold_rows[] = {
	{ OPT_FLOAT, 0, "threshold", OPT_IN(threshold_options, threshold), "P",
		"fix every guess of at least this probability (0.9; block: "
		"off, see --block-steps)",
		0, 1 },
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

uint32_t denoising_length(const struct method_env *env)
{
	const struct block_options *o = method_options(env, &block_table);

	return o->length;
}

int denoising_choose_length(const struct method_env *env, const struct model *m,
	uint32_t *length, struct err *e)
{
	uint32_t asked = denoising_length(env);

	*length = m->block_length ? m->block_length : asked;
	if (asked == *length || asked == DENOISING_LENGTH)
		return 0;
	return err_set(e, EINVAL,
		"--block %u, but the model was trained with blocks of %u "
		"positions; leave --block out",
		asked, m->block_length);
}

double denoising_threshold(const struct method_env *env, double otherwise)
{
	const struct threshold_options *o =
		method_options(env, &threshold_table);

	return o->threshold >= 0 ? o->threshold : otherwise;
}

/* ---- a text -------------------------------------------------------------- */

static int check_sampling(
	const struct sampler_opts *o, const char *method, struct err *e)
{
	if (!o->top_k && o->top_p == 1 && o->min_p == 0 &&
		o->repeat_penalty == 1)
		return 0;
	return err_set(e, EINVAL,
		"the method %s draws from all tokens: --top-k, --top-p, "
		"--min-p and --repeat-penalty do not go with it",
		method);
}

int denoising_init(struct denoising *d, const struct method_env *env,
	struct session *s, struct generation *g, uint32_t limit, struct err *e)
{
	const struct model *m = session_model(s);
	size_t row = m->n_vocab * sizeof(float);

	*d = (struct denoising){
		.session = s,
		.gen = g,
		.guessing = { .sampling = gen_sampling(g),
			.n_vocab = m->n_vocab,
			.mask = m->mask_token },
		.limit = limit,
		.shift = m->shift_logits,
		.mask = m->mask_token,
	};
	d->x = malloc(limit * sizeof(*d->x));
	d->at = malloc(limit * sizeof(*d->at));
	d->row = malloc(limit * sizeof(*d->row));
	d->guess = malloc(limit * sizeof(*d->guess));
	d->logits = malloc(TOGETHER * row);
	d->behind = malloc(row);
	if (!d->x || !d->at || !d->row || !d->guess || !d->logits || !d->behind)
		return err_set(e, ENOMEM, "no memory for %u positions", limit);
	return env->method->diffusion
		? check_sampling(d->guessing.sampling, env->method->name, e)
		: 0;
}

void denoising_release(struct denoising *d)
{
	free(d->x);
	free(d->at);
	free(d->row);
	free(d->guess);
	free(d->logits);
	free(d->behind);
}

int denoising_whole_pass(struct denoising *d, uint32_t *from, struct err *e)
{
	*from = 0;
	session_truncate(d->session, SESSION_TEXT, 0);
	return session_continue(d->session, SESSION_TEXT, d->x, d->last, e);
}

int denoising_window_pass(
	struct denoising *d, uint32_t from, uint32_t to, struct err *e)
{
	struct row row[WIRE_MAX_ROWS];
	const struct rows rows = { SIGHT_WINDOW, to - from, row };

	for (uint32_t i = 0; i < rows.n; i++)
		row[i] = (struct row){ .token = d->x[from + i],
			.position = from + i,
			.sequence = SESSION_TEXT };
	return session_forward(d->session, &rows, e);
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
		"a pass of a diffusion model computes all positions at "
		"once, here %u at most, and the text has %zu; try a "
		"shorter prompt%s",
		d->limit, n, n < trained ? " or a larger --ctx" : "");
}

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
}

void denoising_lay_canvas(struct denoising *d, const struct method_env *env)
{
	const struct canvas_options *o = method_options(env, &canvas_table);
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

void denoising_append(struct denoising *d)
{
	for (uint32_t i = d->begin; i < d->end; i++)
		gen_append(d->gen, d->x[i]);
}

/* ---- guesses ------------------------------------------------------------- */

uint32_t denoising_masks(
	const struct denoising *d, uint32_t from, uint32_t to, uint32_t *at)
{
	uint32_t n = 0;

	for (uint32_t i = from; i < to; i++)
		if (d->x[i] == d->mask)
			at[n++] = i;
	return n;
}

static void guess_one(struct denoising *d, const float *logits, uint32_t at,
	uint32_t pass, uint32_t i)
{
	guess_from(&d->guessing, logits, at, pass, &d->guess[i]);
}

/* guess[i ..] of at[i ..], which rows row[0 ..] speak of. */
static int guess_rows(struct denoising *d, const uint32_t *row,
	const uint32_t *at, uint32_t n, uint32_t pass, uint32_t i,
	struct err *e)
{
	float *logits[TOGETHER];
	uint32_t some;
	int ret = 0;

	for (; i < n && !ret; i += some, row += some) {
		some = n - i < TOGETHER ? n - i : TOGETHER;
		for (uint32_t k = 0; k < some; k++)
			logits[k] = d->logits + k * d->guessing.n_vocab;
		ret = session_logits_rows(d->session, row, some, logits, e);
		for (uint32_t k = 0; k < some && !ret; k++)
			guess_one(d, logits[k], at[i + k], pass, i + k);
	}
	return ret;
}

/* Whether no row speaks of the first of at[], but what was kept. */
static bool is_behind(
	const struct denoising *d, uint32_t from, const uint32_t *at)
{
	if (!at[0] || at[0] >= from + d->shift)
		return false;
	assert(at[0] == d->behind_at);
	return true;
}

int denoising_guess(struct denoising *d, uint32_t from, const uint32_t *at,
	uint32_t n, uint32_t pass, struct err *e)
{
	uint32_t i = 0;

	if (n && is_behind(d, from, at))
		guess_one(d, d->behind, at[0], pass, i++);
	/* Of the text's first position nobody speaks but itself. */
	for (uint32_t k = i; k < n; k++)
		d->row[k - i] = at[k] ? at[k] - d->shift - from : 0;
	return guess_rows(d, d->row, at, n, pass, i, e);
}

int denoising_keep_behind(
	struct denoising *d, uint32_t row, uint32_t at, struct err *e)
{
	d->behind_at = at;
	return session_logits_rows(d->session, &row, 1, &d->behind, e);
}

void denoising_take(struct denoising *d, uint32_t n)
{
	session_count_valid(d->session, n);
	for (uint32_t i = 0; i < n; i++)
		d->x[d->guess[i].at] = d->guess[i].token;
}

void denoising_tell(const struct denoising *d, uint32_t from, uint32_t to)
{
	uint8_t mark[WIRE_MAX_ROWS];
	const struct gen_step step = {
		.first = from,
		.n = to - from,
		.token = d->x + from,
		.mark = mark,
	};

	if (!gen_is_watched(d->gen))
		return;
	for (uint32_t i = 0; i < step.n; i++)
		mark[i] = step.token[i] == d->mask ? GEN_MASK : GEN_STABLE;
	gen_step(d->gen, &step);
}

/* ---- a block ------------------------------------------------------------- */

/* Of n guesses, `left` passes of the schedule being still to come. */
static uint32_t choose(struct denoising *d, const struct denoising_rule *rule,
	uint32_t n, uint32_t left)
{
	if (rule->threshold >= 0) {
		guesses_by_confidence(d->guess, n);
		return guesses_over(d->guess, n, rule->threshold);
	}
	guesses_by_score(d->guess, n);
	return n / left + (n % left ? 1 : 0);
}

int denoising_fill(struct denoising *d, const struct denoising_rule *rule,
	const struct denoising_pass *how, struct err *e)
{
	uint32_t masks = d->end - d->begin, steps = rule->steps, from, n;

	if (!steps || steps > masks)
		steps = masks;
	for (uint32_t pass = 0;; pass++) {
		int ret;

		n = denoising_masks(d, d->begin, d->end, d->at);
		if (!n || gen_done(d->gen))
			return 0;
		ret = how->forward(d, &from, e);
		if (!ret)
			ret = denoising_guess(d, from, d->at, n, pass, e);
		if (ret)
			return ret;
		denoising_take(d, choose(d, rule, n, steps - pass));
		denoising_tell(d, d->begin, d->end);
	}
}
