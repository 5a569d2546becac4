/*
 * Prints the results of bench kernels as tables or JSON. Each figure is the
 * median over the rounds. A ratio of two figures is computed in each round; the
 * median of these ratios is printed.
 */
#include "host/bench/bench_kernels.h"
#include "host/bench/bench_machine.h"

#include "base/err.h"
#include "base/median.h"
#include "host/bench/bench.h"
#include "host/bench/print_json.h"
#include "tensor/kern.h"
#include "tensor/tile.h"

#include <jansson.h>
#include <stdio.h>

/* ---- medians ------------------------------------------------------------- */

static double ratio(const struct kernels_model *m, const double *dividend,
	const double *divisor)
{
	double v[KERNELS_ROUNDS];

	for (unsigned r = 0; r < m->rounds; r++)
		v[r] = dividend[r] / divisor[r];
	return median(v, m->rounds);
}

/*
 * Rates of one pass on this machine. of_memory is bytes_per_s divided by the
 * machine's memory bandwidth; of_int8 is ops_per_s divided by the machine's
 * int8 operations/s. of_int8 is 0 if the kernels have no integer products.
 */
struct run_summary {
	double seconds, bytes_per_s, of_memory, ops_per_s, of_int8;
};

static struct run_summary rates_of(
	const struct kernels_model *m, const struct kernels_pass *p)
{
	double memory[KERNELS_ROUNDS], int8[KERNELS_ROUNDS];
	double bytes = (double)kernels_layer_bytes(m);
	double ops = 2.0 * (double)kernels_layer_weights(m) * p->rows;
	double s = median(p->seconds, m->rounds);

	for (unsigned r = 0; r < m->rounds; r++) {
		memory[r] = bench_share(bytes / p->seconds[r], m->read_rate[r]);
		int8[r] = bench_share(ops / p->seconds[r], m->int8_rate[r]);
	}
	return (struct run_summary){ s, bytes / s, median(memory, m->rounds),
		ops / s, median(int8, m->rounds) };
}

static double over(uint64_t a, uint64_t b)
{
	return (double)a / (double)b;
}

/* ---- tables -------------------------------------------------------------- */

static void print_layouts(const struct kernels_model *m)
{
	printf("\n%s: one matrix in each layout, float kernels; x: speed over "
	       "layout rows\n\n",
		m->shape->name);
	printf("%-20s %4s  %-10s  %9s %8s  %9s\n", "matrix", "rows", "layout",
		"wall ms", "", "phone us");
	for (int i = 0; i < KERNELS_MATRICES; i++)
		for (int r = 0; r < KERNELS_LAYOUT_PASSES; r++)
			for (int l = 0; l < KERNELS_LAYOUTS; l++) {
				const struct kernels_matrix *x = &m->matrix[i];
				const struct kernels_figure
					*f = &m->layout[i][r][l],
					*rows = &m->layout[i][r][KERNELS_ROWS];
				char name[48] = "";

				if (!l)
					snprintf(name, sizeof(name), "%s %ux%u",
						x->name, x->n, x->k);
				printf("%-20s %4u  %-10s  %9.3f %6.2f x  "
				       "%9.1f %6.2f x\n",
					name, kernels_layout_rows[r],
					kernels_layout_names[l],
					median(f->seconds, m->rounds) * 1e3,
					ratio(m, rows->seconds, f->seconds),
					(double)f->ps / 1e6,
					over(rows->ps, f->ps));
			}
}

static void print_softmax(const struct kernels_model *m)
{
	printf("\n%s: softmax of %u heads on the phone, us; attention here, "
	       "ms\n\n",
		m->shape->name, m->shape->heads);
	printf("%7s %6s  %8s %8s %8s %5s %5s  %8s %8s %5s\n", "", "", "", "",
		"", "f32 /", "f16 /", "attend", "attend", "f32 /");
	printf("%7s %6s  %8s %8s %8s %5s %5s  %8s %8s %5s\n", "queries",
		"length", "f32", "f16", "table", "table", "table", "f32",
		"table", "table");
	for (size_t i = 0; i < KERNELS_SOFTMAXES; i++) {
		const struct kernels_softmax *s = &m->softmax[i];

		printf("%7u %6u  %8.1f %8.1f %8.1f %5.2f %5.2f  %8.3f %8.3f "
		       "%6.2f\n",
			s->queries, s->length, (double)s->ps[0] / 1e6,
			(double)s->ps[1] / 1e6, (double)s->ps[2] / 1e6,
			over(s->ps[0], s->ps[2]), over(s->ps[1], s->ps[2]),
			median(s->f32, m->rounds) * 1e3,
			median(s->table, m->rounds) * 1e3,
			ratio(m, s->f32, s->table));
	}
}

void kernels_print(const struct bench_kernels *b)
{
	printf("Kernels '%s' on %u threads; phone '%s'\n", b->kern->name,
		b->args->threads, b->phone);
	for (unsigned i = 0; i < b->n_models; i++) {
		const struct kernels_model *m = &b->model[i];

		printf("\n%s: the matrices of a layer, %.1f MB, int8 kernels\n"
		       "All times are medians of %u rounds. Limits of this "
		       "machine:\nmemory reads %.1f GB/s, %.0f GOP/s of int8 "
		       "products.\n\n",
			m->shape->name, (double)kernels_layer_bytes(m) / 1e6,
			m->rounds, median(m->read_rate, m->rounds) / 1e9,
			median(m->int8_rate, m->rounds) / 1e9);
		printf("%4s  %9s %7s %6s %8s %6s   %15s %15s\n", "", "wall",
			"GB/s", "of", "GOP/s", "of", "tiles on phone",
			"super on phone");
		printf("%4s  %9s %7s %6s %8s %6s   %7s %7s %7s %7s\n", "rows",
			"ms", "", "memory", "", "int8", "ms", "mJ", "ms", "mJ");
		for (size_t j = 0; j < KERNELS_PASSES; j++) {
			const struct kernels_pass *p = &m->pass[j];
			struct run_summary t = rates_of(m, p);

			printf("%4u  %9.3f %7.2f %4.0f %% %8.1f %4.0f %%   "
			       "%7.3f %7.3f %7.3f %7.3f\n",
				p->rows, t.seconds * 1e3, t.bytes_per_s / 1e9,
				100 * t.of_memory, t.ops_per_s / 1e9,
				100 * t.of_int8, (double)p->tiles_ps / 1e9,
				(double)p->tiles_pj / 1e9,
				(double)p->super_ps / 1e9,
				(double)p->super_pj / 1e9);
		}

		print_layouts(m);
		print_softmax(m);
	}
}

/* ---- JSON ---------------------------------------------------------------- */

static json_t *model_json(const struct kernels_model *m)
{
	const struct kernels_shape *s = m->shape;
	json_t *a = json_array();
	json_t *layouts;
	json_t *softmaxes;

	for (size_t i = 0; i < KERNELS_PASSES; i++) {
		const struct kernels_pass *p = &m->pass[i];
		struct run_summary t = rates_of(m, p);

		json_array_append_new(a,
			json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:I, s:I, "
				  "s:I, s:I}",
				"rows", (int)p->rows, "seconds", t.seconds,
				"weight_bytes_per_s", t.bytes_per_s,
				"of_memory", t.of_memory, "ops_per_s",
				t.ops_per_s, "of_int8", t.of_int8,
				"tiles_phone_ps", (json_int_t)p->tiles_ps,
				"super_phone_ps", (json_int_t)p->super_ps,
				"tiles_phone_pj", (json_int_t)p->tiles_pj,
				"super_phone_pj", (json_int_t)p->super_pj));
	}

	layouts = json_array();
	for (int i = 0; i < KERNELS_MATRICES; i++)
		for (int r = 0; r < KERNELS_LAYOUT_PASSES; r++)
			for (int l = 0; l < KERNELS_LAYOUTS; l++) {
				const struct kernels_matrix *x = &m->matrix[i];
				const struct kernels_figure *f =
					m->layout[i][r];
				uint32_t type = kernels_type(
					(enum kernels_layout)l, x->q8_0);
				const struct tile_info *tile = tile_info(type);

				json_array_append_new(layouts,
					json_pack("{s:s, s:i, s:i, s:i, s:s, "
						  "s:s, s:f, s:f, s:I, s:f}",
						"matrix", x->name, "n",
						(int)x->n, "k", (int)x->k,
						"rows",
						(int)kernels_layout_rows[r],
						"layout",
						kernels_layout_names[l], "type",
						tile ? tile->name
						     : dtype_info(type)->name,
						"seconds",
						median(f[l].seconds, m->rounds),
						"times_rows",
						ratio(m,
							f[KERNELS_ROWS].seconds,
							f[l].seconds),
						"phone_ps", (json_int_t)f[l].ps,
						"phone_times_rows",
						over(f[KERNELS_ROWS].ps,
							f[l].ps)));
			}

	softmaxes = json_array();
	for (size_t i = 0; i < KERNELS_SOFTMAXES; i++) {
		const struct kernels_softmax *softmax = &m->softmax[i];

		json_array_append_new(softmaxes,
			json_pack("{s:i, s:i, s:I, s:I, s:I, s:f, s:f, s:f, "
				  "s:f, s:f}",
				"queries", (int)softmax->queries, "length",
				(int)softmax->length, "f32_phone_ps",
				(json_int_t)softmax->ps[PRICE_EXP_F32],
				"f16_phone_ps",
				(json_int_t)softmax->ps[PRICE_EXP_F16],
				"table_phone_ps",
				(json_int_t)softmax->ps[PRICE_EXP_TABLE],
				"phone_f32_to_table",
				over(softmax->ps[PRICE_EXP_F32],
					softmax->ps[PRICE_EXP_TABLE]),
				"phone_f16_to_table",
				over(softmax->ps[PRICE_EXP_F16],
					softmax->ps[PRICE_EXP_TABLE]),
				"attend_seconds",
				median(softmax->f32, m->rounds),
				"attend_table_seconds",
				median(softmax->table, m->rounds),
				"attend_to_table",
				ratio(m, softmax->f32, softmax->table)));
	}

	return json_pack(
		"{s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:f, s:f, s:o, "
		"s:o, s:o}",
		"shapes", s->name, "rounds", (int)m->rounds, "embd",
		(int)s->embd, "ff", (int)s->ff, "heads", (int)s->heads,
		"kv_heads", (int)s->kv_heads, "layer_weights",
		(json_int_t)kernels_layer_weights(m), "layer_bytes",
		(json_int_t)kernels_layer_bytes(m), "memory_bytes_per_s",
		median(m->read_rate, m->rounds), "int8_ops_per_s",
		median(m->int8_rate, m->rounds), "matrices", a, "layouts",
		layouts, "softmax", softmaxes);
}

int kernels_print_json(const struct bench_kernels *b, struct err *e)
{
	json_t *models = json_array(), *o;

	for (unsigned i = 0; i < b->n_models; i++)
		json_array_append_new(models, model_json(&b->model[i]));
	o = json_pack("{s:i, s:s, s:s, s:s, s:i, s:s, s:o}", "version",
		BENCH_JSON_VERSION, "bench", "kernels", "clock", "wall",
		"phone", b->phone, "threads", (int)b->args->threads, "kernels",
		b->kern->name, "models", models);
	return print_json(o, 6, e);
}
