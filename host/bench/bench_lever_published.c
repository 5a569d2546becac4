/*
 * The figures that the Lever paper publishes as numbers. The paper's figures 4,
 * 5, 11, 13 and 14 are drawings without numbers, and figure 10 has numbers only
 * for the mean of all configurations.
 *
 * The bundled tasks stand for the paper's data sets: program (edit a program
 * and add functions) for MBPP, math for GSM8K, and story for MT-Bench.
 */
#include "host/bench/bench_lever.h"

#include "base/checked.h"

#define MBPP     "program"
#define GSM8K    "math"
#define MT_BENCH "story"

/* clang-format off */
#define SIZE(source, shape, rows, column, v)                                  \
	{ source, shape, "size", { rows }, column, NULL, v }
#define TABLE_1(shape, computing, reading, all)                               \
	SIZE("table 1", shape, "1 row", "compute_s", computing),              \
	SIZE("table 1", shape, "1 row", "read_s", reading),                   \
	SIZE("table 1", shape, "1 row", "pass_s", all)
/* The paper gives the time of verification, and the part of this time that is
 * wasted. The difference is the time of computing. */
#define TABLE_2(shape, rows, verifying, waste)                                \
	SIZE("table 2", shape, rows, "compute_s", verifying - waste)

#define QUALITY(set, draft, method, column, v)                                \
	{ "table 5, " set, "qwen3-8b", "quality", { draft, method }, column,  \
		NULL, v }
#define TABLE_5(draft, method, mbpp, gsm8k, mt_bench, mean)                   \
	QUALITY("MBPP", draft, method, MBPP, mbpp),                           \
	QUALITY("GSM8K", draft, method, GSM8K, gsm8k),                        \
	QUALITY("MT-Bench", draft, method, MT_BENCH, mt_bench),               \
	QUALITY("mean", draft, method, "geometric_mean", mean)

#define LEVER(source, shape, table, column, task, v)                          \
	{ source, shape, table, { "lever" }, column, task, v }
#define TABLE_6(set, shape, task, b0, b20, b40, b60, b80, b100)               \
	LEVER("table 6, " set, shape, "budget", "budget_0", task, b0),        \
	LEVER("table 6, " set, shape, "budget", "budget_20", task, b20),      \
	LEVER("table 6, " set, shape, "budget", "budget_40", task, b40),      \
	LEVER("table 6, " set, shape, "budget", "budget_60", task, b60),      \
	LEVER("table 6, " set, shape, "budget", "budget_80", task, b80),      \
	LEVER("table 6, " set, shape, "budget", "budget_100", task, b100)
#define TABLE_7(set, shape, task, n32, n64, n128, n256, n512)                 \
	LEVER("table 7, " set, shape, "length", "tokens_32", task, n32),      \
	LEVER("table 7, " set, shape, "length", "tokens_64", task, n64),      \
	LEVER("table 7, " set, shape, "length", "tokens_128", task, n128),    \
	LEVER("table 7, " set, shape, "length", "tokens_256", task, n256),    \
	LEVER("table 7, " set, shape, "length", "tokens_512", task, n512)

#define FIGURE_10(column, v)                                                  \
	{ "figure 10, mean", NULL, "phones", { "geometric mean" }, column,    \
		NULL, v }
#define FIGURE_12(column, v)                                                  \
	{ "figure 12", NULL, "prune", { "pruned" }, column, NULL, v }
/* clang-format on */

/* Times are in seconds; shares are from 0 to 1. */
const struct published bench_lever_published[] = {
	TABLE_1("llama3.1-8b", 0.0932, 0.9906, 1.0838),
	TABLE_1("qwen3-4b", 0.1315, 0.4744, 0.6059),
	TABLE_1("qwen3-8b", 0.0966, 0.9534, 1.0500),
	TABLE_1("qwen3-14b", 0.1412, 1.9671, 2.1083),
	TABLE_2("llama3.1-8b", "16 rows", 0.828, 0.188),
	TABLE_2("llama3.1-8b", "32 rows", 1.255, 0.256),
	TABLE_2("qwen3-8b", "16 rows", 0.817, 0.183),
	TABLE_2("qwen3-8b", "32 rows", 1.229, 0.249),
	TABLE_5("eagle 8B", "chain", 1.296, 1.222, 1.108, 1.206),
	TABLE_5("eagle 8B", "edgellm", 1.434, 1.382, 1.283, 1.365),
	TABLE_5("eagle 8B", "lever", 1.753, 1.741, 1.516, 1.666),
	TABLE_5("model", "chain", 0.860, 0.840, 0.820, 0.840),
	TABLE_5("model", "edgellm", 1.010, 0.940, 0.890, 0.945),
	TABLE_5("model", "lever", 1.250, 1.220, 1.110, 1.192),
	TABLE_6("MBPP", "qwen3-8b", MBPP, 1.753, 2.010, 2.473, 2.812, 3.120,
		3.401),
	TABLE_6("MBPP", "llama3.1-8b", MBPP, 2.918, 3.704, 4.214, 4.619, 4.922,
		5.494),
	TABLE_6("GSM8K", "qwen3-8b", GSM8K, 1.741, 1.996, 2.453, 2.791, 3.099,
		3.377),
	TABLE_6("GSM8K", "llama3.1-8b", GSM8K, 2.225, 2.821, 3.203, 3.508,
		3.736, 4.194),
	TABLE_7("MBPP", "qwen3-8b", MBPP, 1.768, 1.772, 1.753, 1.741, 1.712),
	TABLE_7("MBPP", "llama3.1-8b", MBPP, 3.082, 3.110, 2.918, 2.890, 2.854),
	TABLE_7("GSM8K", "qwen3-8b", GSM8K, 1.756, 1.760, 1.741, 1.729, 1.681),
	TABLE_7("GSM8K", "llama3.1-8b", GSM8K, 2.349, 2.371, 2.225, 2.204,
		2.173),
	FIGURE_10("over_flash_ar", 2.93),
	FIGURE_10("over_chain", 1.50),
	FIGURE_10("over_edgellm", 1.27),
	FIGURE_12("rows_kept", 0.48),
	FIGURE_12("accepted_retained", 0.95),
	FIGURE_12("verify_saved", 0.122),
};
const unsigned bench_lever_n_published = ARRAY_LEN(bench_lever_published);
