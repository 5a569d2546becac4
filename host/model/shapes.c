#include "host/model/shapes.h"

#include "host/model/shape_type.h"

#include <stddef.h>
#include <string.h>

/* clang-format off */
/* The values are in the order of the members of struct shape. */
#define DENSE(X)                                                              \
	X("qwen2.5-0.5b", "qwen2", "Qwen2.5 0.5B", 151936, 151643,            \
		24, 896, 14, 2, 64, 4864, 32768,                              \
		1e6f, 1e-6f, 0, true, true, false, 0, SHAPE_QWEN)             \
	X("qwen2.5-1.5b", "qwen2", "Qwen2.5 1.5B", 151936, 151643,            \
		28, 1536, 12, 2, 128, 8960, 32768,                            \
		1e6f, 1e-6f, 0, true, true, false, 0, SHAPE_QWEN)             \
	X("qwen2.5-3b", "qwen2", "Qwen2.5 3B", 151936, 151643,                \
		36, 2048, 16, 2, 128, 11008, 32768,                           \
		1e6f, 1e-6f, 0, true, true, false, 0, SHAPE_QWEN)             \
	X("qwen2.5-7b", "qwen2", "Qwen2.5 7B", 152064, 151643,                \
		28, 3584, 28, 4, 128, 18944, 32768,                           \
		1e6f, 1e-6f, 0, false, true, false, 0, SHAPE_QWEN)            \
	X("qwen3-0.6b", "qwen3", "Qwen3 0.6B", 151936, 151643,                \
		28, 1024, 16, 8, 128, 3072, 40960,                            \
		1e6f, 1e-6f, 0, true, false, true, 0, SHAPE_QWEN)             \
	X("qwen3-4b", "qwen3", "Qwen3 4B", 151936, 151643,                    \
		36, 2560, 32, 8, 128, 9728, 40960,                            \
		1e6f, 1e-6f, 0, true, false, true, 0, SHAPE_QWEN)             \
	X("qwen3-8b", "qwen3", "Qwen3 8B", 151936, 151643,                    \
		36, 4096, 32, 8, 128, 12288, 40960,                           \
		1e6f, 1e-6f, 0, false, false, true, 0, SHAPE_QWEN)            \
	X("qwen3-14b", "qwen3", "Qwen3 14B", 151936, 151643,                  \
		40, 5120, 40, 8, 128, 17408, 40960,                           \
		1e6f, 1e-6f, 0, false, false, true, 0, SHAPE_QWEN)            \
	X("llama3.2-1b", "llama", "Llama 3.2 1B", 128256, 128000,             \
		16, 2048, 32, 8, 64, 8192, 131072,                            \
		5e5f, 1e-5f, 32, true, false, false, 0, SHAPE_LLAMA3)         \
	X("llama3.2-3b", "llama", "Llama 3.2 3B", 128256, 128000,             \
		28, 3072, 24, 8, 128, 8192, 131072,                           \
		5e5f, 1e-5f, 32, true, false, false, 0, SHAPE_LLAMA3)         \
	X("llama3.1-8b", "llama", "Llama 3.1 8B", 128256, 128000,             \
		32, 4096, 32, 8, 128, 14336, 131072,                          \
		5e5f, 1e-5f, 8, false, false, false, 0, SHAPE_LLAMA3)         \
	X("tiny", "llama", "tiny", 608, 592,                                  \
		4, 128, 8, 4, 16, 384, 512,                                   \
		1e4f, 1e-5f, 0, true, false, false, 0, SHAPE_LLAMA3)          \
	X("tiny-llada", "llada", "tiny LLaDA", 608, 592,                      \
		4, 128, 8, 4, 16, 384, 512,                                   \
		1e4f, 1e-5f, 0, true, false, false, 0, SHAPE_LLAMA3)          \
	X("tiny-block", "llada", "tiny block diffusion", 608, 592,            \
		4, 128, 8, 4, 16, 384, 512,                                   \
		1e4f, 1e-5f, 0, true, false, false, 32, SHAPE_LLAMA3)         \
	X("tiny-dream", "dream", "tiny Dream", 640, 592,                      \
		4, 128, 8, 4, 16, 384, 512,                                   \
		1e4f, 1e-6f, 0, true, true, false, 0, SHAPE_DREAM)            \
	X("llada-8b", "llada", "LLaDA 8B", 126464, 126080,                    \
		32, 4096, 32, 32, 128, 12288, 4096,                           \
		5e5f, 1e-5f, 0, false, false, false, 0, SHAPE_LLADA)          \
	X("dream-7b", "dream", "Dream 7B", 152064, 151643,                    \
		28, 3584, 28, 4, 128, 18944, 131072,                          \
		1e6f, 1e-6f, 0, false, true, false, 0, SHAPE_DREAM)
#define MIXTURES(X)                                                           \
	X("qwen3-30b-a3b", "qwen3moe", "Qwen3 30B A3B", 151936, 151643,       \
		48, 2048, 32, 4, 128, 768, 40960,                             \
		1e6f, 1e-6f, 0, false, false, true, 0, SHAPE_QWEN, 128, 8)    \
	X("qwen1.5-moe-a2.7b", "qwen2moe", "Qwen1.5 MoE A2.7B", 151936,        \
		151643, 24, 2048, 16, 16, 128, 1408, 8192,                    \
		1e6f, 1e-6f, 0, false, true, false, 0, SHAPE_QWEN,            \
		60, 4, 5632)                                                  \
	X("olmoe-1b-7b", "olmoe", "OLMoE 1B 7B", 50304, 50279,                \
		16, 2048, 16, 16, 128, 1024, 4096,                            \
		1e4f, 1e-5f, 0, false, false, true, 0, SHAPE_OLMO, 64, 8)     \
	X("tiny-moe", "qwen3moe", "tiny mixture of experts", 608, 592,        \
		4, 128, 8, 4, 16, 96, 512,                                    \
		1e4f, 1e-6f, 0, true, false, true, 0, SHAPE_QWEN, 16, 4)      \
	X("tiny-shared", "qwen2moe", "tiny mixture with a shared expert",     \
		608, 592, 4, 128, 8, 4, 16, 96, 512,                          \
		1e4f, 1e-6f, 0, false, true, false, 0, SHAPE_QWEN,            \
		16, 4, 192)                                                   \
	X("tiny-llada-moe", "llada-moe", "tiny LLaDA-MoE", 608, 592,          \
		4, 128, 8, 4, 16, 96, 512,                                    \
		1e4f, 1e-5f, 0, false, false, true, 0, SHAPE_LLAMA3, 16, 4)
/* clang-format on */

#define ROWS(X)         DENSE(X) MIXTURES(X)
#define ROW(...)        { __VA_ARGS__ },
#define NAME(name, ...) name,

const struct shape shapes[SHAPES] = { ROWS(ROW) };
const char *const shape_names[SHAPES + 1] = { ROWS(NAME) NULL };
const char *const dense_shape_names[] = { DENSE(NAME) NULL };

_Static_assert(sizeof((const char *const[]){ ROWS(NAME) }) ==
		SHAPES * sizeof(const char *),
	"SHAPES is the number of shapes");

const struct shape *shape_named(const char *name)
{
	const struct shape *s = shapes;

	while (strcmp(s->name, name))
		s++;
	return s;
}

const char *const shape_type_names[] = { "q4_0", "q4_0-all", "q8_0", "f16",
	NULL };

struct shape_type shape_type_at(unsigned i)
{
	static const struct shape_type types[] = { { DTYPE_Q4_0, DTYPE_Q8_0 },
		{ DTYPE_Q4_0, DTYPE_Q4_0 }, { DTYPE_Q8_0, DTYPE_Q8_0 },
		{ DTYPE_F16, DTYPE_F16 } };

	return types[i];
}
