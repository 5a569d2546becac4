/*
 * Tables of phone times of the kernels of test-time scaling, by the number of
 * rows of a pass, with one row for each sample. They reproduce the npu-tts
 * paper's ablations (its figures 14 and 15). Nothing is run here; tandem bench
 * kernels measures kernels.
 */
#include "host/bench/bench_tts_impl.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/bench/bench_table.h"
#include "host/model/shapes.h"
#include "tensor/soc/price.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const unsigned batches[] = { 1, 2, 4, 8, 16 };
static const uint32_t contexts[] = { 1024, 4096, 16384 }; /* as in figure 14 */

/* The layouts in the order of figure 15: conventional groups, groups of tiles,
 * coalesced groups, and a plain read of the bytes. */
enum { ROWS, GROUPS, SUPER, READ, KINDS };

enum { C_ROWS, C_GROUPS, C_SUPER, C_READ, C_BY_ROWS, C_BY_GROUPS, C_OF_READ };

/* Return the shape that is used for the first model's phone costs, or the
 * paper's shape if none is given. */
static const struct shape *shape_of(const struct tts *t)
{
	const char *said = t->args->shape[0];
	unsigned i = 0;

	while (strcmp(shapes[i].name, said ? said : "qwen2.5-1.5b"))
		i++;
	return &shapes[i];
}

void tts_kernels(const struct tts *t, struct bench_table *out)
{
	const struct shape *m = shape_of(t);
	double *least, *mean, *most;

	*out = (struct bench_table){ .name = "kernels",
		.title = "Kernels on the phone, by the samples in a pass",
		.note = "the matrices of a layer, in Q4_0 and the last in "
			"Q8_0: rows as in a model file, groups of tiles, the "
			"same in super-groups, and a plain read of the bytes. "
			"paper: figure 15 of npu-tts",
		.name_key = { "samples" },
		.n_names = 1 };
	table_add_column(out, "rows_s", "rows us", 1, 1e6);
	table_add_column(out, "groups_s", "groups us", 1, 1e6);
	table_add_column(out, "super_s", "super us", 1, 1e6);
	table_add_column(out, "read_s", "read us", 1, 1e6);
	table_add_column(out, "rows_to_super", "rows/super", 2, 1);
	table_add_column(out, "groups_to_super", "groups/super", 2, 1);
	table_add_column(out, "super_to_read", "super/read", 2, 1);
	for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
		char number[16];
		double *v;

		snprintf(number, sizeof(number), "%u", batches[i]);
		v = table_add_row(out, number, NULL)->value;
		for (unsigned kind = 0; kind < KINDS; kind++) {
			/* Seconds for the matrices of a layer; NAN if the phone
			 * cannot run them. */
			static const enum dtype types[KINDS][2] = {
				[ROWS] = { DTYPE_Q4_0, DTYPE_Q8_0 },
				[GROUPS] = { DTYPE_GROUP_Q4_0,
					DTYPE_GROUP_Q8_0 },
				[SUPER] = { DTYPE_SUPER_Q4_0,
					DTYPE_SUPER_Q8_0 },
				[READ] = { DTYPE_SUPER_Q4_0, DTYPE_SUPER_Q8_0 },
			};
			const uint64_t q = (uint64_t)m->n_head * m->head_dim;
			const uint64_t kv =
				(uint64_t)m->n_kv_head * m->head_dim;
			const uint64_t matrix[][2] = { { q, m->n_embd },
				{ kv, m->n_embd }, { kv, m->n_embd },
				{ m->n_embd, q }, { m->n_ff, m->n_embd },
				{ m->n_ff, m->n_embd },
				{ m->n_embd, m->n_ff } };
			double sum = 0;

			for (size_t j = 0; j < ARRAY_LEN(matrix); j++) {
				enum dtype type =
					types[kind][j + 1 == ARRAY_LEN(matrix)];
				struct price p;
				int ret = kind == READ
					? price_matmul_bound(&t->soc,
						  batches[i], matrix[j][0],
						  matrix[j][1], type, &p)
					: price_matmul(&t->soc, batches[i],
						  matrix[j][0], matrix[j][1],
						  type, &p);

				sum += ret ? NAN : (double)p.total_ps * 1e-12;
			}
			v[C_ROWS + kind] = sum;
		}
		v[C_BY_ROWS] = v[C_ROWS] / v[C_SUPER];
		v[C_BY_GROUPS] = v[C_GROUPS] / v[C_SUPER];
		v[C_OF_READ] = v[C_SUPER] / v[C_READ];
	}
	/* Results of the paper, section 7.4, on a OnePlus 12: matrix products
	 * with one row. */
	least = table_add_row(out, "paper, least", NULL)->value;
	mean = table_add_row(out, "paper, mean", NULL)->value;
	most = table_add_row(out, "paper, most", NULL)->value;
	least[C_BY_ROWS] = 9.65;
	most[C_BY_ROWS] = 19.04;
	least[C_BY_GROUPS] = 1.82;
	most[C_BY_GROUPS] = 3.45;
	mean[C_OF_READ] = 1.27;
}

/* ---- softmax ------------------------------------------------------------- */

enum { C_F32, C_F16, C_TABLE, C_BY_F32, C_BY_F16 };

static double softmax_s(const struct soc *soc, const struct shape *m,
	enum price_exp by, unsigned rows, uint32_t context)
{
	struct price p;

	return price_softmax(soc, (uint64_t)rows * m->n_head, context, by, &p)
		? NAN
		: (double)p.total_ps * 1e-12;
}

void tts_softmax(const struct tts *t, struct bench_table *out)
{
	const struct shape *m = shape_of(t);
	double *least, *most;

	*out = (struct bench_table){ .name = "softmax",
		.title = "Softmax on the phone, by the samples in a pass",
		.note = "of one row for each sample in all heads of a layer; "
			"exponentials in f32, in f16 and from a table. paper: "
			"figure 14 of npu-tts",
		.name_key = { "samples", "positions" },
		.n_names = 2 };
	table_add_column(out, "f32_s", "f32 us", 1, 1e6);
	table_add_column(out, "f16_s", "f16 us", 1, 1e6);
	table_add_column(out, "table_s", "table us", 1, 1e6);
	table_add_column(out, "f32_to_table", "f32/table", 2, 1);
	table_add_column(out, "f16_to_table", "f16/table", 2, 1);
	for (size_t c = 0; c < ARRAY_LEN(contexts); c++)
		for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
			char samples[16], positions[16];
			double *v;

			snprintf(samples, sizeof(samples), "%u", batches[i]);
			snprintf(positions, sizeof(positions), "%u",
				contexts[c]);
			v = table_add_row(out, samples, positions)->value;
			v[C_F32] = softmax_s(&t->soc, m, PRICE_EXP_F32,
				batches[i], contexts[c]);
			v[C_F16] = softmax_s(&t->soc, m, PRICE_EXP_F16,
				batches[i], contexts[c]);
			v[C_TABLE] = softmax_s(&t->soc, m, PRICE_EXP_TABLE,
				batches[i], contexts[c]);
			v[C_BY_F32] = v[C_F32] / v[C_TABLE];
			v[C_BY_F16] = v[C_F16] / v[C_TABLE];
		}
	/* Results of the paper, section 7.4: 1, 4 and 16 queries over the
	 * contexts above. */
	least = table_add_row(out, "paper, least", "")->value;
	most = table_add_row(out, "paper, most", "")->value;
	least[C_BY_F32] = 1.26;
	most[C_BY_F32] = 2.19;
	most[C_BY_F16] = 1.6;
}
