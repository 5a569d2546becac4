/*
 * tandem bench decode --samples: measures passes that decode many samples of
 * one prompt. Each sample is a sequence of its own, with one row (token) in
 * each pass. Compares two ways to attend to the prompt: SHARED reads the keys
 * and values of the prompt once for all samples, APART reads them again for
 * each sample. Every round measures both ways in turn, so that other load
 * affects both ways alike.
 */
#include "host/bench/bench.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/median.h"
#include "base/rng.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/bench/bench_lists.h"
#include "host/bench/bench_machine.h"
#include "host/bench/bench_table.h"
#include "host/bench/print_json.h"
#include "host/model/model.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* number of passes that are timed together, after one untimed pass */
#define PASSES 6

/* The ways to read the prompt's keys and values. SHARED is index 0, the way
 * that ordinary decoding uses. */
enum way { SHARED, APART, WAYS };

/* Sums over the timed passes: times of the passes, and number of KV bytes that
 * the passes read. */
struct cost {
	struct bare_pass_times of;
	double bytes;
};

struct bench_samples {
	const struct bench_args *args;
	unsigned rounds, n_counts;
	uint32_t count[BENCH_COUNTS], most, prompt;
	const char *phone;
	struct soc soc;
	struct tandem *tandem;
	int32_t *token; /* [prompt + 1 + PASSES] tokens that the passes read */
	float *logits;  /* [most][n_vocab] logits of a pass */
	struct cost cost[WAYS][BENCH_COUNTS][BENCH_ROUNDS_MAX];
	struct bench_table table; /* the table that is printed next */
};

/* ---- passes -------------------------------------------------------------- */

/* Run one untimed pass, then PASSES timed passes. Each pass computes one row,
 * and its logits, for each of n samples. */
static int time_passes(struct bench_samples *b, uint32_t n, enum way way,
	struct cost *c, struct err *e)
{
	struct bare_pass p = { .sequences = n,
		.length = b->prompt,
		.rows = 1,
		.apart = way == APART };
	struct bare_pass_times first = { 0 };
	struct tandem_report before, after;
	int ret;

	p.token = b->token + p.length;
	ret = tandem_bare_pass(b->tandem, &p, b->logits, &first, e);
	tandem_report(b->tandem, &before);
	*c = (struct cost){ 0 };
	for (unsigned i = 0; i < PASSES && !ret; i++) {
		p.length++;
		p.token++;
		ret = tandem_bare_pass(b->tandem, &p, b->logits, &c->of, e);
	}
	tandem_report(b->tandem, &after);
	c->bytes = (double)(after.total.kv_read_bytes -
		before.total.kv_read_bytes);
	return ret;
}

/* ---- opening ------------------------------------------------------------- */

static int open_all(struct bench_samples *b, struct err *e)
{
	uint32_t room = 1 + PASSES;
	struct session_opts *o;
	struct tandem_report r;
	int ret = bench_open_bare(b->args, &b->tandem, &r, e);

	if (ret)
		return ret;
	if (r.model->n_ctx < room + b->args->prompt)
		return err_set(e, EINVAL,
			"a prompt of %u tokens and %u generated tokens do not "
			"fit into the model's context of %u tokens; try a "
			"shorter --prompt",
			b->args->prompt, room, r.model->n_ctx);
	b->prompt = b->args->prompt;
	b->token = malloc((b->prompt + room) * sizeof(*b->token));
	b->logits =
		malloc(b->most * (size_t)r.model->n_vocab * sizeof(*b->logits));
	if (!b->token || !b->logits)
		return err_set(e, ENOMEM, "no memory for logits");
	for (uint32_t i = 0; i < b->prompt + room; i++)
		b->token[i] =
			(int32_t)(rng_uniform(1, 0, i) * r.model->n_vocab);
	/* Allocate as many sequences as the largest number of samples, and KV
	 * slots (each for one token's keys and values) for the prompt and for
	 * the tokens of all sequences. */
	o = tandem_pair(b->tandem);
	o->decode_rows = b->most;
	o->smaller_graphs = true;
	o->sequences = b->most;
	o->context_need = b->prompt + room;
	/*
	 * After the prompt, each sequence needs KV slots for its own tokens,
	 * and for a copy of the prompt's last group of KV slots, which a
	 * sequence makes before it first writes to this group.
	 */
	o->slots = o->context_need + (PASSES + 64) * b->most;
	o->soc = &b->soc;
	ret = tandem_start_bare(b->tandem, e);
	return ret ? ret
		   : tandem_prefill(
			     b->tandem, b->token, b->prompt, b->most, NULL, e);
}

/* ---- report -------------------------------------------------------------- */

#define FIGURE(name, expression)                                           \
	static double name(                                                \
		const struct bench_samples *b, unsigned i, unsigned round) \
	{                                                                  \
		const struct cost *shared = &b->cost[SHARED][i][round];    \
		const struct cost *other = &b->cost[APART][i][round];      \
		const struct bare_pass_times *c = &shared->of;             \
		const struct bare_pass_times *apart = &other->of;          \
                                                                           \
		return (void)apart, (void)c, (expression);                 \
	}

FIGURE(pass_time, c->pass_s / PASSES)
FIGURE(apart_time, apart->pass_s / PASSES)
FIGURE(pass_share, c->pass_s / apart->pass_s)
FIGURE(logits_time, c->logits_s / PASSES)
FIGURE(speed, b->count[i] * PASSES / (c->pass_s + c->logits_s))
FIGURE(growth, speed(b, i, round) / speed(b, 0, round))
FIGURE(read_bytes, shared->bytes / PASSES)
FIGURE(apart_bytes, other->bytes / PASSES)
FIGURE(phone_time, c->phone_pass_s / PASSES)
FIGURE(phone_share, c->phone_pass_s / apart->phone_pass_s)
FIGURE(phone_logits, c->phone_logits_s / (c->phone_pass_s + c->phone_logits_s))
FIGURE(phone_speed,
	b->count[i] * PASSES / (c->phone_pass_s + c->phone_logits_s))
FIGURE(phone_growth, phone_speed(b, i, round) / phone_speed(b, 0, round))

static const struct {
	const char *key, *head;
	int decimals;
	double scale;
	double (*of)(const struct bench_samples *, unsigned i, unsigned round);
} figures[] = {
	{ "pass_s", "pass ms", 2, 1e3, pass_time },
	{ "apart_pass_s", "apart ms", 2, 1e3, apart_time },
	{ "pass_of_apart", "of apart", 3, 1, pass_share },
	{ "logits_s", "logits ms", 2, 1e3, logits_time },
	{ "tokens_per_s", "tokens/s", 1, 1, speed },
	{ "growth", "grown", 2, 1, growth },
	{ "kv_read_bytes", "read MiB", 1, 1.0 / (1 << 20), read_bytes },
	{ "kv_apart_bytes", "apart MiB", 1, 1.0 / (1 << 20), apart_bytes },
	{ "phone_pass_s", "phone ms", 2, 1e3, phone_time },
	{ "phone_pass_of_apart", "of apart", 3, 1, phone_share },
	{ "phone_logits_share", "logits", 3, 1, phone_logits },
	{ "phone_tokens_per_s", "tokens/s", 1, 1, phone_speed },
	{ "phone_growth", "grown", 2, 1, phone_growth },
};
#define FIGURES    ARRAY_LEN(figures)
#define PHONE_FROM 8 /* index in figures[] of the first phone figure */

static void fill(const struct bench_samples *b, struct bench_table *t,
	unsigned from, unsigned to)
{
	double all[BENCH_ROUNDS_MAX];

	for (unsigned f = from; f < to; f++)
		table_add_column(t, figures[f].key, figures[f].head,
			figures[f].decimals, figures[f].scale);
	for (unsigned i = 0; i < b->n_counts; i++) {
		char name[16];
		struct table_row *row;

		snprintf(name, sizeof(name), "%u", b->count[i]);
		row = table_add_row(t, name, NULL);
		for (unsigned f = from; f < to; f++) {
			for (unsigned r = 0; r < b->rounds; r++)
				all[r] = figures[f].of(b, i, r);
			row->value[f - from] = median(all, b->rounds);
		}
	}
}

static int report(struct bench_samples *b, struct err *e)
{
	struct bench_table *t = &b->table;

	if (b->args->json) {
		*t = (struct bench_table){ .name_key = { "samples" } };
		fill(b, t, 0, FIGURES);
		return print_json(
			json_pack("{s:i, s:s, s:s, s:i, s:i, s:i, s:o}",
				"version", BENCH_JSON_VERSION, "bench",
				"decode", "phone", b->phone, "rounds",
				(int)b->rounds, "threads",
				(int)b->args->threads, "prompt", (int)b->prompt,
				"samples", table_json(t)),
			6, e);
	}
	printf("Samples of one prompt of %u tokens, %u threads, "
	       "medians of %u rounds\n\n",
		b->prompt, b->args->threads, b->rounds);
	*t = (struct bench_table){ .name = "samples",
		.title = "wall clock",
		.note = "pass: one row per sample; the prompt's keys "
			"and values are read once for all\nsamples. "
			"apart: they are read again for each sample. "
			"of apart: pass divided by\napart. grown: "
			"tokens/s divided by that of the first row.",
		.name_key = { "samples" } };
	fill(b, t, 0, PHONE_FROM);
	table_print(t, stdout);
	*t = (struct bench_table){ .name = "phone",
		.title = b->phone,
		.note = "of apart: pass divided by a pass that reads "
			"the keys and values of the prompt for\neach "
			"sample. logits: share of the time of a pass "
			"and its logits. grown: tokens/s\ndivided by "
			"that of the first row.",
		.name_key = { "samples" } };
	fill(b, t, PHONE_FROM, FIGURES);
	putchar('\n');
	table_print(t, stdout);
	return 0;
}

/* ---- the benchmark ------------------------------------------------------- */

int bench_samples_main(const struct bench_args *args, struct err *e)
{
	struct bench_samples *b = calloc(1, sizeof(*b));
	int ret, closed = 0;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	b->args = args;
	b->rounds = args->rounds < BENCH_ROUNDS_MAX ? args->rounds
						    : BENCH_ROUNDS_MAX;
	ret = bench_counts("samples", args->samples, "1,8,16,32", b->count,
		&b->n_counts, &b->most, e);
	if (!ret)
		ret = bench_phone(args->clock, &b->phone, &b->soc, e);
	if (!ret)
		ret = open_all(b, e);
	if (!ret)
		progress_report(&args->progress, "measuring", 0, b->rounds);
	for (unsigned r = 0; r < b->rounds && !ret; r++) {
		for (unsigned i = 0; i < b->n_counts && !ret; i++)
			for (unsigned w = 0; w < WAYS && !ret; w++)
				ret = time_passes(b, b->count[i], w,
					&b->cost[w][i][r], e);
		progress_report(&args->progress, "measuring", r + 1, b->rounds);
	}
	progress_report(&args->progress, NULL, 0, 0);
	if (b->tandem)
		closed = tandem_end(b->tandem, ret ? NULL : e);
	free(b->token);
	free(b->logits);
	if (!ret)
		ret = closed ? closed : report(b, e);
	free(b);
	return ret;
}
