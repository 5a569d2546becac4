#include "host/convert/requant.h"

#include "base/workers.h"
#include "tensor/layout.h"
#include "tensor/tile.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Number of values of a row that are converted at a time. The number is a
 * multiple of the block size of every type. */
#define SPAN 256

struct job {
	enum dtype to, from;
	const uint8_t *src;
	uint8_t *dst;
	const uint8_t *packed;
	uint32_t n, k;
	/*
	 * is_grouped: whether `to` is a type of tile groups (whose quantization
	 * groups are made of weights of one tile) or super-groups (several such
	 * groups merged). If it is, `groups` is the conventional type with
	 * which `to` is compared.
	 */
	enum dtype groups;
	bool is_grouped;
	/* whether each row is first rounded to multiples (-8 to 7) of one scale
	 * for the row */
	bool by_channel;
	struct requant_sums *sums; /* sums of each part (TILE rows) */
};

static uint32_t part_rows(const struct job *j, unsigned part)
{
	uint32_t left = j->n - part * TILE;

	return left < TILE ? left : TILE;
}

/* Load up to SPAN values of row `row`, from column `at` on, as float32. Returns
 * the number of values. */
static uint32_t load(const struct job *j, float *out, uint64_t row, uint32_t at)
{
	uint32_t n = j->k - at < SPAN ? j->k - at : SPAN;

	dtype_info(j->from)->to_f32(out,
		j->src + row * dtype_row_bytes(j->from, j->k) +
			dtype_row_bytes(j->from, at),
		n);
	return n;
}

/* ---- conversion ---------------------------------------------------------- */

/* Return the value with the largest magnitude in a row. */
static float largest(const struct job *j, uint64_t row)
{
	float values[SPAN], most = 0;

	for (uint32_t at = 0; at < j->k; at += SPAN) {
		uint32_t n = load(j, values, row, at);

		for (uint32_t i = 0; i < n; i++)
			if (fabsf(values[i]) > fabsf(most))
				most = values[i];
	}
	return most;
}

static void convert_part(void *arg, unsigned part, unsigned thread)
{
	const struct job *j = arg;
	float values[SPAN];

	for (uint32_t r = 0; r < part_rows(j, part); r++) {
		uint64_t row = (uint64_t)part * TILE + r;
		uint8_t *dst = j->dst + row * dtype_row_bytes(j->to, j->k);
		float scale = j->by_channel ? largest(j, row) / -8 : 0;

		for (uint32_t at = 0; at < j->k; at += SPAN) {
			uint32_t n = load(j, values, row, at);

			/* Round each value to an integer between -8 and 7,
			 * multiplied by the scale. The value of largest
			 * magnitude in the row becomes -8 times the scale, as
			 * in Q4_0. */
			for (uint32_t i = 0; j->by_channel && i < n; i++) {
				float code = scale != 0
					? roundf(values[i] / scale)
					: 0;

				values[i] = scale * (code > 7 ? 7 : code);
			}
			dtype_info(j->to)->from_f32(
				dst + dtype_row_bytes(j->to, at), values, n);
		}
	}
}

void requant(struct workers *w, enum dtype to, void *dst, enum dtype from,
	const void *src, uint32_t n, uint32_t k, bool by_channel)
{
	struct job j = { .to = to,
		.from = from,
		.src = src,
		.dst = dst,
		.n = n,
		.k = k,
		.by_channel = by_channel };

	if (!by_channel && (to == from || tile_info(to))) {
		layout_pack(
			w, to, dst, (struct layout_source){ from, src }, n, k);
		return;
	}
	assert(dtype_info(to)->from_f32);
	workers_run(w, convert_part, &j, (n + TILE - 1) / TILE);
}

/* ---- loss ---------------------------------------------------------------- */

static void add_errors(
	double *sum, const float *is, const float *was, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		double d = (double)is[i] - (double)was[i];

		*sum += d * d;
	}
}

/* Add the errors of n columns from column `at` on, for the rows in `part`, to
 * *s. was[r][i] is the original value of row r in column at + i. */
static void compare_tiles(const struct job *j, struct requant_sums *s,
	unsigned part, uint32_t at, uint32_t n, float was[TILE][SPAN])
{
	const uint8_t *tile = j->packed + part * tile_strip_bytes(j->to, j->k) +
		at / TILE * tile_info(j->to)->bytes;
	float is[TILE][TILE];

	for (uint32_t i = 0; i < n; i += TILE) {
		tile_decode(j->to, is[0], tile);
		for (uint32_t r = 0; r < part_rows(j, part); r++)
			add_errors(&s->error, is[r], &was[r][i], TILE);
		tile += tile_info(j->to)->bytes;
	}
}

static void measure_part(void *arg, unsigned part, unsigned thread)
{
	const struct job *j = arg;
	struct requant_sums *s = &j->sums[part];
	float was[TILE][SPAN];
	uint32_t n;

	for (uint32_t at = 0; at < j->k; at += n) {
		n = 0;
		for (uint32_t r = 0; r < part_rows(j, part); r++) {
			uint64_t row = (uint64_t)part * TILE + r;
			float is[SPAN];

			n = load(j, was[r], row, at);
			for (uint32_t i = 0; i < n; i++)
				s->source +=
					(double)was[r][i] * (double)was[r][i];
			if (j->is_grouped) {
				uint8_t blocks[SPAN / 32 * 34];

				dtype_info(j->groups)->from_f32(
					blocks, was[r], n);
				dtype_info(j->groups)->to_f32(is, blocks, n);
				add_errors(&s->conventional, is, was[r], n);
			}
			if (tile_info(j->to))
				continue;
			dtype_info(j->to)->to_f32(is,
				j->packed + row * dtype_row_bytes(j->to, j->k) +
					dtype_row_bytes(j->to, at),
				n);
			add_errors(&s->error, is, was[r], n);
		}
		if (tile_info(j->to))
			compare_tiles(j, s, part, at, n, was);
	}
}

static double relative(double error, double source)
{
	return error == 0 ? 0 : sqrt(error / source);
}

int requant_measure(struct workers *w, struct requant_loss *loss, enum dtype to,
	const void *packed, enum dtype from, const void *src, uint32_t n,
	uint32_t k)
{
	const struct tile_info *tile = tile_info(to);
	unsigned parts = (n + TILE - 1) / TILE;
	struct job j = { .to = to,
		.from = from,
		.src = src,
		.packed = packed,
		.n = n,
		.k = k,
		.groups = tile ? tile->block : to,
		.is_grouped = tile && !tile->by_output };
	struct requant_sums s = loss->sums;

	if (tile_is_exact(to, from))
		return 0;
	j.sums = calloc(parts, sizeof(*j.sums));
	if (!j.sums)
		return -ENOMEM;
	workers_run(w, measure_part, &j, parts);
	for (unsigned i = 0; i < parts; i++) {
		s.source += j.sums[i].source;
		s.error += j.sums[i].error;
		s.conventional += j.sums[i].conventional;
	}
	loss->sums = s;
	loss->is_grouped = j.is_grouped;
	loss->error = relative(s.error, s.source);
	loss->conventional = relative(s.conventional, s.source);
	loss->ratio = loss->error == loss->conventional
		? 1
		: loss->error / loss->conventional;
	free(j.sums);
	return 0;
}
