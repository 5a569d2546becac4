/*
 * The method dream compared with a plain decoder that was written from the
 * description by Dream's authors: the times of the steps, the order in which
 * masks are filled, and the drawn tokens. The plain decoder gets its logits
 * from a reference transformer in double precision (reference_model.h); the
 * method runs on a fake device. Both use the same random numbers and counters,
 * and share no other code.
 */
#include "tests/host/method/diffusion_text.h"
#include "tests/host/model/reference_model.h"

#include <math.h>

#define MOST   DT_CONTEXT
#define LENGTH 8 /* length of a block */

enum { CONFIDENCE, MARGIN, ENTROPY, ORIGIN };
static const char *const order_option[] = { "order=confidence", "order=margin",
	"order=entropy", "order=random" };

struct plain {
	const struct diffusion_writer *w;
	unsigned order, steps;
	double order_temperature;
	int32_t x[MOST];
	unsigned n; /* length of x */
	/* Smallest margin of all choices so far: how much the chosen token or
	 * position is better than the second best one. */
	double margin;
	unsigned passes;
};

static double uniform(
	const struct plain *p, unsigned at, unsigned step, unsigned which)
{
	return rng_uniform(p->w->sampling.seed, p->w->sampling.stream,
		((uint64_t)at * 1024 + step) * 16777216 + which);
}

static void nearer(struct plain *p, double by)
{
	if (by < p->margin)
		p->margin = by;
}

/* Softmax of the logits divided by the temperature, with probability 0 for the
 * mask token. */
static void probabilities(const struct plain *p, const double *l, double *out)
{
	unsigned n = p->w->file.n_vocab;
	double t = p->w->sampling.temperature, sum = 0;

	for (unsigned v = 0; v < n; v++)
		sum += out[v] = v == DT_MASK ? 0 : exp(l[v] / (t > 0 ? t : 1));
	for (unsigned v = 0; v < n; v++)
		out[v] /= sum;
}

/* Returns the token with the largest p / (-ln u), which is a draw from p.
 * Without noise it is the token with the largest p. */
static int32_t draw(
	struct plain *p, const double *prob, unsigned at, unsigned step)
{
	double best = -1, second = -1;
	int32_t token = -1;

	for (unsigned v = 0; v < p->w->file.n_vocab; v++) {
		double g = prob[v];

		if (p->w->sampling.temperature > 0)
			g /= -log(uniform(p, at, step, v));
		if (v == DT_MASK)
			continue;
		if (g > best) {
			second = best;
			best = g;
			token = (int32_t)v;
		} else if (g > second) {
			second = g;
		}
	}
	nearer(p, log(best) - log(second));
	return token;
}

static double score(const struct plain *p, const double *prob, int32_t token,
	unsigned at, unsigned step)
{
	double first = 0, second = 0, entropy = 0, s;
	unsigned n = p->w->file.n_vocab;

	for (unsigned v = 0; v < n; v++) {
		if (prob[v] > first) {
			second = first;
			first = prob[v];
		} else if (prob[v] > second) {
			second = prob[v];
		}
		if (prob[v] > 0)
			entropy -= prob[v] * log(prob[v]);
	}
	if (p->order == ORIGIN)
		return uniform(p, at, step, n);
	s = p->order == CONFIDENCE   ? prob[token]
		: p->order == MARGIN ? first - second
				     : -entropy;
	if (p->order_temperature > 0)
		s = s / p->order_temperature -
			log(-log(uniform(p, at, step, n + 1)));
	return s;
}

/* Time number i if the time from 1 to 1/1000 is divided into `steps` equal
 * steps. */
static double time_at(unsigned i, unsigned steps)
{
	return 1 + (0.001 - 1) * i / steps;
}

static void take_step(struct plain *p, unsigned begin, unsigned end,
	unsigned step, unsigned steps)
{
	static double l[MOST * 96], prob[96];
	double rank[LENGTH], s = time_at(step + 1, steps),
			     t = time_at(step, steps);
	double share = step + 1 == steps ? 1 : 1 - s / t, taken = INFINITY,
	       left = -INFINITY;
	int32_t token[LENGTH];
	unsigned masks = 0, keep, n = p->w->file.n_vocab;

	for (unsigned i = begin; i < end; i++)
		masks += p->x[i] == DT_MASK;
	keep = (unsigned)floor(masks * share);
	if (!masks || (p->order != ORIGIN && !keep))
		return; /* the step commits nothing */
	p->passes++;
	ref_logits(p->w->model->gguf, &p->w->file, p->x, end, l);
	for (unsigned i = begin; i < end; i++) {
		rank[i - begin] = -INFINITY;
		if (p->x[i] != DT_MASK)
			continue;
		probabilities(p, l + (size_t)(i - 1) * n, prob);
		token[i - begin] = draw(p, prob, i, step);
		rank[i - begin] = score(p, prob, token[i - begin], i, step);
	}
	if (p->order == ORIGIN)
		keep = 0;
	for (unsigned i = 0; i < end - begin && p->order == ORIGIN; i++)
		keep += rank[i] >= 1 - share;
	for (; keep; keep--) {
		unsigned best = 0;

		for (unsigned i = 1; i < end - begin; i++)
			if (rank[i] > rank[best])
				best = i;
		p->x[begin + best] = token[best];
		taken = rank[best];
		rank[best] = -INFINITY;
	}
	for (unsigned i = 0; i < end - begin; i++)
		left = fmax(left, rank[i]);
	if (taken < INFINITY && left > -INFINITY && p->order != ORIGIN)
		nearer(p, taken - left);
}

static bool all_known(const struct plain *p, unsigned from, unsigned to)
{
	while (from < to && p->x[from] != DT_MASK)
		from++;
	return from == to;
}

static void decode(struct plain *p)
{
	unsigned limit = p->w->n_prompt + p->w->n_predict;

	p->margin = INFINITY;
	memcpy(p->x, p->w->prompt, p->w->n_prompt * sizeof(*p->x));
	for (p->n = p->w->n_prompt; p->n < limit; p->n += LENGTH) {
		unsigned steps = p->steps ? p->steps : LENGTH;

		for (unsigned i = p->n; i < p->n + LENGTH; i++)
			p->x[i] = DT_MASK;
		/* Once all tokens of the text are known, no step is needed. */
		for (unsigned i = 0; i < steps &&
			!(p->n + LENGTH > limit && all_known(p, p->n, limit));
			i++)
			take_step(p, p->n, p->n + LENGTH, i, steps);
	}
	p->n = limit;
}

/* Check that the text equals that of the plain decoder. Returns false if they
 * may differ because a choice was within rounding error. */
static bool check(struct diffusion_writer *w, unsigned order, unsigned steps,
	double order_temperature)
{
	struct plain p = { .w = w,
		.order = order,
		.steps = steps,
		.order_temperature = order_temperature };
	struct diffusion_text t;
	char option[2][40];

	snprintf(option[0], sizeof(option[0]), "block-steps=%u", steps);
	snprintf(option[1], sizeof(option[1]), "order-temperature=%g",
		order_temperature);
	DT_WRITE(w, &t, "dream", "block=8", order_option[order], option[0],
		option[1]);
	decode(&p);
	print_message("%s, %u steps: least margin %g\n", order_option[order],
		steps, p.margin);
	assert_int_equal(t.n, p.n);
	if (p.margin < 2e-5)
		return false;
	assert_int_equal(t.session.decode_rows.passes, p.passes);
	for (unsigned i = 0; i < p.n; i++)
		if (t.token[i] != p.x[i])
			fail_msg("token %u is %d, not %d", i, t.token[i],
				p.x[i]);
	return true;
}

static void test_matches_definition(void **state)
{
	static const unsigned steps[] = { 0, 1, 3, 5, 20 };
	struct diffusion_writer *w = *state;
	unsigned decided = 0;

	w->n_predict = 20;
	dt_model(w, dt_shifted_keys);
	for (unsigned order = 0; order < 4; order++)
		for (unsigned i = 0; i < 5; i++)
			decided += check(w, order, steps[i], 0);
	assert_in_range(decided, 14, 20);
}

static void test_drawn_order_matches_definition(void **state)
{
	struct diffusion_writer *w = *state;
	unsigned decided = 0;

	w->n_predict = 20;
	dt_model(w, dt_shifted_keys);
	for (unsigned order = 0; order < 4; order++) {
		w->sampling.temperature = 0;
		decided += check(w, order, 4, 0.05);
		w->sampling.temperature = 0.6;
		w->sampling.seed = 17 + order;
		decided += check(w, order, 4, 0);
		decided += check(w, order, 8, 0.1);
	}
	assert_in_range(decided, 8, 12);
}

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct diffusion_writer));
	dt_init(*state, harness_seed(), true);
	return 0;
}

static int teardown(void **state)
{
	struct diffusion_writer *w = *state;

	model_close(w->model);
	free(w);
	return 0;
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_matches_definition),
	TEST(test_drawn_order_matches_definition),
};

TEST_FILE(tests)
