/*
 * Tables of phone times that reproduce figures of the npu-tts paper ("Scaling
 * LLM test-time compute with mobile NPU on smartphones"): kernels (figures 8,
 * 14 and 15), passes that decode one row (token) for each sample (figures 11 to
 * 13 and 17), and memory (figure 16). All tables are computed from the shapes
 * of models, in the paper's formats: super-groups of Q4_0, W_down in Q8_0,
 * products and attention in fp16, exponentials from a table. Nothing is
 * measured here; `tandem bench kernels` measures kernels.
 */
#include "host/bench/bench_tts_impl.h"

#include "base/checked.h"
#include "host/api/tandem_pass.h"
#include "host/bench/bench_table.h"
#include "host/model/shapes.h"
#include "tensor/layout.h"
#include "tensor/soc/price_layer.h"
#include "tensor/visibility.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const unsigned batches[] = { 1, 2, 4, 8, 16 };
#define BATCHES ARRAY_LEN(batches)

/* Return the shape that the user has given for the first model, or else
 * qwen2.5-1.5b, a model of the npu-tts paper. */
static const struct shape *shape_of(const struct tts *t)
{
	const char *said = t->args->shape[0];

	return shape_named(said ? said : "qwen2.5-1.5b");
}

static double *add_row(struct bench_table *t, const char *first, uint64_t n)
{
	char number[24];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)n);
	return table_add_row(t, first ? first : number, first ? number : NULL)
		->value;
}

static double seconds(uint64_t ps)
{
	return (double)ps * 1e-12;
}

/* ---- kernels ------------------------------------------------------------- */

/* The matrices of a layer in the paper's formats: Q4_0, and Q8_0 for W_down. */
static struct price_layer layer_of(const struct shape *m, enum layout layout)
{
	const struct shape_type type = { DTYPE_Q4_0, DTYPE_Q8_0 };
	struct price_layer l = pass_price_layer(m, type, layout);

	l.int8 = false;
	l.exp = PRICE_EXP_TABLE;
	return l;
}

/* Return the seconds that the matrices of a layer take on the phone; NAN if the
 * phone cannot run them. */
static double matrices_s(const struct tts *t, unsigned rows, enum layout layout,
	enum price_dequant by)
{
	struct price_layer l = layer_of(shape_of(t), layout);
	double sum = 0;
	uint64_t n, k;

	for (unsigned i = 0; i <= PRICE_DOWN; i++) {
		struct price p;

		price_layer_matrix(&l, i, &n, &k);
		sum += price_matmul_by(&t->soc, rows, n, k, l.type[i], by, &p)
			? NAN
			: seconds(p.total_ps);
	}
	return sum;
}

void tts_kernels(const struct tts *t, struct bench_table *out)
{
	enum {
		ROWS,
		AUTHORS,
		GROUPS,
		SUPER,
		READ,
		BY_ROWS,
		BY_AUTHORS,
		BY_GROUPS,
		OF_READ
	};
	double *least, *mean, *most;

	*out = (struct bench_table){ .name = "kernels",
		.title = "Kernels on the phone, by the samples in a pass",
		.note = "The matrices of a layer in Q4_0 (W_down in Q8_0), by "
			"layout. rows: as in a model file. authors, groups: "
			"groups of tiles, in the order of the paper's authors "
			"and in Tandem's order. super: super-groups in "
			"Tandem's order. read: only reading the bytes. paper: "
			"figure 15 of npu-tts",
		.name_key = { "samples" } };
	table_add_column(out, "rows_s", "rows us", 1, 1e6);
	table_add_column(out, "authors_s", "authors us", 1, 1e6);
	table_add_column(out, "groups_s", "groups us", 1, 1e6);
	table_add_column(out, "super_s", "super us", 1, 1e6);
	table_add_column(out, "read_s", "read us", 1, 1e6);
	table_add_column(out, "rows_to_super", "rows/super", 2, 1);
	table_add_column(out, "authors_to_super", "authors/super", 2, 1);
	table_add_column(out, "groups_to_super", "groups/super", 2, 1);
	table_add_column(out, "super_to_read", "super/read", 2, 1);
	for (size_t i = 0; i < BATCHES; i++) {
		double *v = add_row(out, NULL, batches[i]);

		v[ROWS] = matrices_s(t, batches[i], LAYOUT_ROWS, PRICE_DEQUANT);
		v[AUTHORS] = matrices_s(
			t, batches[i], LAYOUT_GROUPS, PRICE_DEQUANT_AUTHORS);
		v[GROUPS] =
			matrices_s(t, batches[i], LAYOUT_GROUPS, PRICE_DEQUANT);
		v[SUPER] =
			matrices_s(t, batches[i], LAYOUT_SUPER, PRICE_DEQUANT);
		v[READ] = matrices_s(
			t, batches[i], LAYOUT_SUPER, PRICE_DEQUANT_COPY);
		v[BY_ROWS] = v[ROWS] / v[SUPER];
		v[BY_AUTHORS] = v[AUTHORS] / v[SUPER];
		v[BY_GROUPS] = v[GROUPS] / v[SUPER];
		v[OF_READ] = v[SUPER] / v[READ];
	}
	/* The paper's ratios for matrix products with one row (section 7.4, on
	 * a OnePlus 12). */
	least = table_add_row(out, "paper, least", NULL)->value;
	mean = table_add_row(out, "paper, mean", NULL)->value;
	most = table_add_row(out, "paper, most", NULL)->value;
	least[BY_ROWS] = 9.65;
	most[BY_ROWS] = 19.04;
	least[BY_AUTHORS] = 1.82;
	most[BY_AUTHORS] = 3.45;
	mean[OF_READ] = 1.27;
}

static double softmax_s(const struct soc *soc, const struct shape *m,
	enum price_exp by, unsigned rows, uint32_t context)
{
	struct price p;

	return price_softmax(soc, (uint64_t)rows * m->n_head, context, by, &p)
		? NAN
		: seconds(p.total_ps);
}

void tts_softmax(const struct tts *t, struct bench_table *out)
{
	/* in tokens, as in figure 14 of the npu-tts paper */
	static const uint32_t contexts[] = { 1024, 4096, 16384 };
	enum { F32, F16, TABLE, BY_F32, BY_F16, TWO, FOUR };
	const struct shape *m = shape_of(t);
	double *least, *most;

	*out = (struct bench_table){ .name = "softmax",
		.title = "Softmax on the phone, by the samples in a pass",
		.note = "Softmax of one row per sample in all heads of a "
			"layer, with exponentials in f32, in f16 and from a "
			"table. 2 gathers, 4 gathers: f32/table if two or four "
			"gathers are in flight. paper: figure 14 of npu-tts",
		.name_key = { "samples", "positions" } };
	table_add_column(out, "f32_s", "f32 us", 1, 1e6);
	table_add_column(out, "f16_s", "f16 us", 1, 1e6);
	table_add_column(out, "table_s", "table us", 1, 1e6);
	table_add_column(out, "f32_to_table", "f32/table", 2, 1);
	table_add_column(out, "f16_to_table", "f16/table", 2, 1);
	table_add_column(out, "two_gathers", "2 gathers", 2, 1);
	table_add_column(out, "four_gathers", "4 gathers", 2, 1);
	for (size_t c = 0; c < ARRAY_LEN(contexts); c++)
		for (size_t i = 0; i < BATCHES; i++) {
			struct soc two = t->soc, four = t->soc;
			char samples[16];
			double *v;

			two.gathers_in_flight = 2;
			four.gathers_in_flight = 4;
			snprintf(samples, sizeof(samples), "%u", batches[i]);
			v = add_row(out, samples, contexts[c]);
			v[F32] = softmax_s(&t->soc, m, PRICE_EXP_F32,
				batches[i], contexts[c]);
			v[F16] = softmax_s(&t->soc, m, PRICE_EXP_F16,
				batches[i], contexts[c]);
			v[TABLE] = softmax_s(&t->soc, m, PRICE_EXP_TABLE,
				batches[i], contexts[c]);
			v[BY_F32] = v[F32] / v[TABLE];
			v[BY_F16] = v[F16] / v[TABLE];
			v[TWO] = v[F32] /
				softmax_s(&two, m, PRICE_EXP_TABLE, batches[i],
					contexts[c]);
			v[FOUR] = v[F32] /
				softmax_s(&four, m, PRICE_EXP_TABLE, batches[i],
					contexts[c]);
		}
	/* The paper's ratios for 1, 4 and 16 queries over the contexts in
	 * contexts[] (section 7.4). */
	least = table_add_row(out, "paper, least", "")->value;
	most = table_add_row(out, "paper, most", "")->value;
	least[BY_F32] = 1.26;
	most[BY_F32] = 2.19;
	most[BY_F16] = 1.6;
}

void tts_attention(const struct tts *t, struct bench_table *out)
{
	enum { MATRIX, SOFTMAX, OTHER, LOAD, OVERLAPPED, IN_TURN, SHARE };
	const struct shape *m = shape_of(t);
	/* in tokens, as in figure 8 of the npu-tts paper */
	const uint32_t context = 4096;

	*out = (struct bench_table){ .name = "attention",
		.title = "Attention of a layer on the phone, by the queries",
		.note = "Attention over 4096 positions, in fp16 with "
			"exponentials in f32. other: transposing and joining "
			"keys and values. all: time if the parts overlap, as "
			"in Tandem's kernel. in turn: time if one part follows "
			"the other, as in the authors' kernel. softmax %: "
			"share of the time in turn. Figure 8 of npu-tts has no "
			"numbers; it shows that softmax dominates for many "
			"queries",
		.name_key = { "queries" } };
	table_add_column(out, "matrix_s", "matrix us", 1, 1e6);
	table_add_column(out, "softmax_s", "softmax us", 1, 1e6);
	table_add_column(out, "other_s", "other us", 1, 1e6);
	table_add_column(out, "load_s", "load K, V us", 1, 1e6);
	table_add_column(out, "all_s", "all us", 1, 1e6);
	table_add_column(out, "in_turn_s", "in turn us", 1, 1e6);
	table_add_column(out, "softmax_share", "softmax %", 1, 1);
	for (size_t i = 0; i < BATCHES; i++) {
		const struct visibility_piece piece = { batches[i], context };
		const struct price_heads heads = { m->n_head, m->n_kv_head,
			m->head_dim, PRICE_EXP_F32 };
		double *v = add_row(out, NULL, batches[i]);
		struct price p, soft;

		price_visibility(
			&t->soc, &heads, batches[i], batches[i], &piece, 1, &p);
		price_softmax(&t->soc, (uint64_t)batches[i] * m->n_head,
			context, PRICE_EXP_F32, &soft);
		v[MATRIX] = seconds(p.matrix_ps);
		v[SOFTMAX] = seconds(soft.vector_ps);
		v[OTHER] = seconds(p.vector_ps) - v[SOFTMAX];
		v[LOAD] = seconds(p.read_ps + p.dma_ps);
		v[OVERLAPPED] = seconds(p.total_ps);
		v[IN_TURN] = v[MATRIX] + v[SOFTMAX] + v[OTHER] + v[LOAD];
		v[SHARE] = 100 * v[SOFTMAX] / v[IN_TURN];
	}
}

/* ---- passes -------------------------------------------------------------- */

/* Time and energy of a pass that decodes one row for each sample. */
struct step {
	double npu_s, cpu_s, joules;
};

/* Cost of a pass of `rows` rows that attend to `seen` positions, with the
 * logits of `logits` rows computed on the CPU. */
static struct step step_of(const struct soc *soc, const struct shape *m,
	uint32_t rows, uint32_t logits, uint32_t seen)
{
	const struct visibility_piece piece = { rows, seen };
	const struct price_batch batch = { rows, rows, &piece, 1 };
	const struct price_layer l = layer_of(m, LAYOUT_SUPER);
	struct price npu, cpu = { 0 };
	struct step s;

	price_request(soc, &npu);
	for (uint32_t i = 0; i < m->n_layer; i++)
		price_layer(soc, &l, &batch, &npu);
	if (logits)
		price_cpu_matmul(
			soc, logits, m->n_vocab, m->n_embd, DTYPE_Q4_0, &cpu);
	s = (struct step){ seconds(npu.total_ps), seconds(cpu.total_ps),
		seconds(npu.energy_pj + cpu.energy_pj) };
	s.joules += soc->base_w * (s.npu_s + s.cpu_s);
	return s;
}

/* The models of figures 11 to 13 of the npu-tts paper. */
static const char *const models[] = { "qwen2.5-1.5b", "qwen2.5-3b",
	"llama3.2-1b", "llama3.2-3b" };

void tts_batches(const struct tts *t, struct bench_table *out)
{
	enum { RATE, GROWN, CPU, WATTS, JOULES, OF_LARGE };
	const struct step large =
		step_of(&t->soc, shape_named("qwen2.5-3b"), 1, 1, 1024);
	double *paper;

	*out = (struct bench_table){ .name = "batches",
		.title = "Passes of large models, by the samples in a pass",
		.note = "Passes over 1024 positions. grown: tokens/s divided "
			"by that with one sample. CPU: share of the time that "
			"the CPU computes logits. over 3b: energy of a pass "
			"divided by that of qwen2.5-3b with one sample. paper: "
			"section 7.2 of npu-tts; its figures 11 to 13 have no "
			"numbers",
		.name_key = { "model", "samples" } };
	table_add_column(out, "tokens_per_s", "tokens/s", 1, 1);
	table_add_column(out, "growth", "grown", 2, 1);
	table_add_column(out, "cpu_share", "CPU", 2, 1);
	table_add_column(out, "w", "W", 2, 1);
	table_add_column(out, "j_per_token", "mJ/token", 1, 1e3);
	table_add_column(out, "of_3b", "over 3b", 2, 1);
	for (size_t j = 0; j < ARRAY_LEN(models); j++) {
		double one = NAN;

		for (size_t i = 0; i < BATCHES; i++) {
			const struct step s =
				step_of(&t->soc, shape_named(models[j]),
					batches[i], batches[i], 1024);
			const double all = s.npu_s + s.cpu_s;
			double *v = add_row(out, models[j], batches[i]);

			v[RATE] = batches[i] / all;
			one = i ? one : v[RATE];
			v[GROWN] = v[RATE] / one;
			v[CPU] = s.cpu_s / all;
			v[WATTS] = s.joules / all;
			v[JOULES] = s.joules / batches[i];
			v[OF_LARGE] = s.joules / large.joules;
		}
	}
	paper = table_add_row(out, "paper, qwen2.5-1.5b", "16")->value;
	paper[CPU] = 0.5;
	paper[WATTS] = 5;
	table_add_row(out, "paper, qwen2.5-3b", "1")->value[WATTS] = 4.3;
	/* For the energy, the paper says only "lower than that of the 3B model
	 * at a batch size of 1", so this ratio is an upper bound. */
	table_add_row(out, "paper, qwen2.5-1.5b, below", "8")->value[OF_LARGE] =
		1;
}

void tts_prompts(const struct tts *t, struct bench_table *out)
{
	static const uint32_t prompts[] = { 512, 1024, 2048, 4096 };
	const uint32_t chunk = 256;

	*out = (struct bench_table){ .name = "prompts",
		.title = "Tokens a second, by prompt and samples in a pass",
		.note = "prompt: tokens/s while the prompt is read in chunks "
			"of 256. Figures 13 and 17 of npu-tts have no numbers; "
			"the text says \"a mild decreasing trend\" from 512 to "
			"4096 tokens",
		.name_key = { "model", "prompt" } };
	for (size_t i = 0; i < BATCHES; i++) {
		char key[TABLE_TEXT], head[TABLE_TEXT];

		snprintf(key, sizeof(key), "samples_%u", batches[i]);
		snprintf(head, sizeof(head), "%u", batches[i]);
		table_add_column(out, key, head, 1, 1);
	}
	table_add_column(out, "prompt_tokens_per_s", "prompt", 0, 1);
	for (size_t j = 0; j < ARRAY_LEN(models); j++)
		for (size_t k = 0; k < ARRAY_LEN(prompts); k++) {
			const struct shape *m = shape_named(models[j]);
			double *v = add_row(out, models[j], prompts[k]);
			double sum = 0;

			for (size_t i = 0; i < BATCHES; i++) {
				const struct step s = step_of(&t->soc, m,
					batches[i], batches[i], prompts[k]);

				v[i] = batches[i] / (s.npu_s + s.cpu_s);
			}
			for (uint32_t at = chunk; at <= prompts[k]; at += chunk)
				sum += step_of(&t->soc, m, chunk, 0, at).npu_s;
			v[BATCHES] = prompts[k] / sum;
		}
}

/* ---- memory -------------------------------------------------------------- */

void tts_memory(const struct tts *t, struct bench_table *out)
{
	static const struct {
		const char *name;
		/* values of section 7.5 of the npu-tts paper */
		double npu_mib, all_gib;
	} paper[] = { { "qwen2.5-1.5b", 1056, 1.3 },
		{ "qwen2.5-3b", 2090, 2.4 } };
	const uint64_t context = 4096;

	*out = (struct bench_table){ .name = "memory",
		.title = "Memory while decoding, MiB",
		.note = "cache: key-value cache of 4096 positions in fp16. "
			"with host: NPU plus the output matrix in Q8_0 on the "
			"host. paper: figure 16 of npu-tts",
		.name_key = { "model" } };
	table_add_column(out, "weight_bytes", "weights", 0, 1. / (1 << 20));
	table_add_column(out, "cache_bytes", "cache", 0, 1. / (1 << 20));
	table_add_column(out, "npu_bytes", "NPU", 0, 1. / (1 << 20));
	table_add_column(out, "npu_paper_bytes", "paper", 0, 1. / (1 << 20));
	table_add_column(out, "npu_ratio", "ratio", 2, 1);
	table_add_column(out, "all_bytes", "with host", 0, 1. / (1 << 20));
	table_add_column(out, "all_paper_bytes", "paper", 0, 1. / (1 << 20));
	table_add_column(out, "all_ratio", "ratio", 2, 1);
	for (size_t i = 0; i < ARRAY_LEN(paper); i++) {
		const struct shape *m = shape_named(paper[i].name);
		const struct price_layer l = layer_of(m, LAYOUT_SUPER);
		double *v = table_add_row(out, paper[i].name, NULL)->value;
		uint64_t bytes = 0, n, k;

		for (unsigned j = 0; j < PRICE_MATRICES; j++) {
			price_layer_matrix(&l, j, &n, &k);
			bytes += layout_bytes(
				l.type[j], (uint32_t)n, (uint32_t)k);
		}
		v[0] = (double)(bytes * m->n_layer);
		v[1] = (double)(context * 2 * 2 * m->n_layer * m->n_kv_head *
			m->head_dim);
		v[2] = v[0] + v[1];
		v[3] = paper[i].npu_mib * (1 << 20);
		v[4] = v[2] / v[3];
		v[5] = v[2] +
			(double)layout_bytes(DTYPE_Q8_0, m->n_vocab, m->n_embd);
		v[6] = paper[i].all_gib * (1 << 30);
		v[7] = v[5] / v[6];
	}
}
