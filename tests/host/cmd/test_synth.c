#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "host/cmd/inspect.h"
#include "host/convert/synth.h"
#include "host/model/shapes.h"
#include "host/convert/synth_vocab.h"
#include "host/model/model.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Write a tiny model to a new folder and return its path. */
static const char *tiny(enum dtype quant, enum dtype ffn_down, uint64_t seed)
{
	static char path[4200];
	const struct synth_opts o = { shape_named("tiny"), quant, ffn_down,
		seed };
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s/tiny.gguf", harness_tmp());
	assert_ok(synth_write(path, &o, &e), &e);
	return path;
}

/* ---- the file as a model ---- */

static void test_loads(void **state)
{
	static const enum dtype quants[] = { DTYPE_Q4_0, DTYPE_IQ4_NL,
		DTYPE_MXFP4, DTYPE_Q8_0, DTYPE_F16, DTYPE_BF16, DTYPE_F32 };

	for (size_t i = 0; i < ARRAY_LEN(quants); i++) {
		struct model *m = NULL;
		struct tokenizer *t = NULL;
		struct err e = { 0 };

		assert_ok(model_open(&m, tiny(quants[i], DTYPE_Q8_0, 1), NULL,
				  NULL, &e),
			&e);
		assert_ok(tokenizer_open(&t, m->gguf, &e), &e);
		assert_string_equal(m->arch, "llama");
		assert_int_equal(m->n_layer, 4);
		assert_int_equal(m->n_embd, 128);
		assert_int_equal(m->n_kv_head, 4);
		assert_int_equal(m->n_ctx, 512);
		assert_int_equal(m->n_vocab, tokenizer_n_vocab(t));
		assert_ptr_equal(m->output, m->token_embd);
		assert_int_equal(m->token_embd->type, quants[i]);
		assert_int_equal(m->layer[3][WIRE_T_GATE]->type, quants[i]);
		assert_int_equal(m->layer[3][WIRE_T_DOWN]->type, DTYPE_Q8_0);
		tokenizer_close(t);
		model_close(m);
	}
}

/* Check the metadata in the files of small diffusion models. */
static void test_diffusion(void **state)
{
	static const struct {
		const char *shape, *arch;
		bool shift_logits, bias;
		uint32_t block_length;
		int32_t mask;
	} want[] = {
		{ "tiny-llada", "llada", false, false, 0, 594 },
		{ "tiny-block", "llada", false, false, 32, 594 },
		{ "tiny-dream", "dream", true, true, 0, 615 },
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const struct synth_opts o = { shape_named(want[i].shape),
			DTYPE_Q8_0, DTYPE_Q8_0, 1 };
		struct inspection in;
		struct model *m = NULL;
		struct err e = { 0 };
		char path[4200];

		snprintf(
			path, sizeof(path), "%s/diffusion.gguf", harness_tmp());
		assert_ok(synth_write(path, &o, &e), &e);
		assert_ok(model_open(&m, path, NULL, NULL, &e), &e);
		assert_string_equal(m->arch, want[i].arch);
		assert_false(m->causal);
		assert_int_equal(m->mask_token, want[i].mask);
		assert_int_equal(m->shift_logits, want[i].shift_logits);
		assert_int_equal(m->block_length, want[i].block_length);
		assert_int_equal(!!m->layer[3][WIRE_T_K_BIAS], want[i].bias);
		inspect_gguf(&in, m->gguf);
		assert_true(in.diffusion);
		assert_int_equal(in.mask_token, want[i].mask);
		assert_int_equal(in.shift_logits, want[i].shift_logits);
		assert_int_equal(in.block_length, want[i].block_length);
		model_close(m);
	}
}

/* Check files of mixtures of experts. The test changes the numbers of layers
 * and experts of each shape (a set of layer sizes), as every caller of
 * synth_write may. The vocabularies are smaller to save time. */
static void test_experts(void **state)
{
	static const struct {
		const char *shape;
		uint32_t layers, experts;
		uint32_t n_ff, n_used, q_norm;
	} want[] = {
		{ "tiny-moe", 4, 16, 96, 4, 16 },
		{ "olmoe-1b-7b", 1, 8, 1024, 8, 2048 },
		{ "qwen3-30b-a3b", 2, 9, 768, 8, 128 },
		{ "qwen1.5-moe-a2.7b", 1, 5, 1408, 4, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		struct shape s = *shape_named(want[i].shape);
		const struct synth_opts o = { &s, DTYPE_Q4_0, DTYPE_Q8_0, 1 };
		const struct gguf_tensor *t;
		struct inspection in;
		struct model *m = NULL;
		struct err e = { 0 };
		char path[4200];

		s.n_vocab = 608;
		s.first_special = 592;
		s.n_layer = want[i].layers;
		s.n_expert = want[i].experts;
		snprintf(path, sizeof(path), "%s/moe.gguf", harness_tmp());
		assert_ok(synth_write(path, &o, &e), &e);
		assert_ok(model_open(&m, path, NULL, NULL, &e), &e);
		assert_string_equal(m->arch, s.arch);
		assert_int_equal(m->n_layer, want[i].layers);
		assert_int_equal(m->n_expert, want[i].experts);
		assert_int_equal(m->n_used, want[i].n_used);
		assert_int_equal(m->n_ff, want[i].n_ff);
		t = m->layer[want[i].layers - 1][WIRE_T_Q_NORM];
		assert_int_equal(t ? t->dim[0] : 0, want[i].q_norm);
		t = m->layer[0][WIRE_T_ROUTER];
		assert_int_equal(t->type, DTYPE_F32);
		t = m->layer[0][WIRE_T_DOWN];
		assert_int_equal(t->type, DTYPE_Q8_0);
		/* no two experts are equal */
		assert_true(memcmp(t->data,
			(const char *)t->data + t->bytes / t->dim[2], 1000));
		inspect_gguf(&in, m->gguf);
		assert_int_equal(in.experts, want[i].experts);
		assert_int_equal(in.experts_used, want[i].n_used);
		assert_int_equal(in.ff, want[i].n_ff);
		model_close(m);
		unlink(path);
	}
}

static void read_all(const char *path, char **data, size_t *len)
{
	struct err e = { 0 };

	assert_ok(fd_read_file(path, 1 << 24, data, len, &e), &e);
}

static void test_same_seed(void **state)
{
	char *a, *b, *c;
	size_t na, nb, nc;

	read_all(tiny(DTYPE_Q4_0, DTYPE_Q4_0, 7), &a, &na);
	read_all(tiny(DTYPE_Q4_0, DTYPE_Q4_0, 7), &b, &nb);
	read_all(tiny(DTYPE_Q4_0, DTYPE_Q4_0, 8), &c, &nc);
	assert_int_equal(na, nb);
	assert_memory_equal(a, b, na);
	assert_int_equal(na, nc);
	assert_true(memcmp(a + na / 2, c + na / 2, na / 2));
	free(a);
	free(b);
	free(c);
}

struct moments {
	double mean, deviation;
};

static struct moments moments_of(const struct gguf_tensor *t)
{
	const size_t n = t->dim[0] * t->dim[1];
	float *x = malloc(n * sizeof(*x));
	double sum = 0, squares = 0;

	dtype_info(t->type)->to_f32(x, t->data, n);
	for (size_t i = 0; i < n; i++) {
		sum += x[i];
		squares += (double)x[i] * x[i];
	}
	free(x);
	return (struct moments){ sum / (double)n,
		sqrt(squares / (double)n - pow(sum / (double)n, 2)) };
}

/* Each matrix has 49,152 weights, so the standard deviation is accurate to
 * about 0.3 %. */
static void test_distribution(void **state)
{
	struct model *m = NULL;
	struct err e = { 0 };
	struct moments s;

	assert_ok(
		model_open(&m, tiny(DTYPE_F32, DTYPE_Q8_0, 1), NULL, NULL, &e),
		&e);
	s = moments_of(m->layer[0][WIRE_T_UP]);
	assert_close(s.mean, 0, 0.002, "mean of ffn_up");
	assert_close(s.deviation * sqrt(128), 1, 0.02, "scale of ffn_up");
	s = moments_of(m->layer[2][WIRE_T_DOWN]);
	assert_close(s.mean, 0, 0.002, "mean of ffn_down");
	assert_close(s.deviation * sqrt(384), 1, 0.02, "scale of ffn_down");
	s = moments_of(m->output_norm);
	assert_close(s.mean, 1, 0.05, "mean of a norm");
	assert_close(s.deviation, 0.1, 0.03, "spread of a norm");
	assert_true(memcmp(m->layer[0][WIRE_T_UP]->data,
		m->layer[1][WIRE_T_UP]->data, 1000));
	model_close(m);
}

/* The products of a router with a token's hidden state, whose values are about
 * 1, have a standard deviation of about 1, so that experts get different
 * weights. */
static void test_routers(void **state)
{
	const struct synth_opts o = { shape_named("tiny-moe"), DTYPE_Q4_0,
		DTYPE_Q8_0, 1 };
	struct model *m = NULL;
	struct err e = { 0 };
	struct moments s;
	char path[4200];

	snprintf(path, sizeof(path), "%s/moe.gguf", harness_tmp());
	assert_ok(synth_write(path, &o, &e), &e);
	assert_ok(model_open(&m, path, NULL, NULL, &e), &e);
	s = moments_of(m->layer[3][WIRE_T_ROUTER]);
	assert_close(s.mean, 0, 0.01, "mean of a router");
	assert_close(s.deviation * sqrt(128), 1, 0.06, "scale of a router");
	model_close(m);
}

/* The last progress report, and whether the reported progress ever
 * decreased. */
struct run_summary {
	const char *what;
	uint64_t done, total;
	bool fell, over;
};

static void hear(void *arg, const char *what, uint64_t done, uint64_t total)
{
	struct run_summary *t = arg;

	t->over = !what;
	if (!what)
		return;
	t->fell |= done < t->done || done > total;
	*t = (struct run_summary){ what, done, total, t->fell, false };
}

static void test_progress(void **state)
{
	struct run_summary told = { 0 };
	const struct synth_opts o = { shape_named("tiny"), DTYPE_Q4_0,
		DTYPE_Q4_0, 1, { hear, &told } };
	struct err e = { 0 };
	char path[4200];

	snprintf(path, sizeof(path), "%s/tiny.gguf", harness_tmp());
	assert_ok(synth_write(path, &o, &e), &e);
	assert_string_equal(told.what, "writing weights");
	/* the shape has more than 800,000 weights */
	assert_true(told.total > 800000);
	/* The last tensor may have so few values that its progress is not
	 * reported. */
	assert_in_range(told.done, told.total * 9 / 10, told.total);
	assert_false(told.fell);
	assert_true(told.over);
}

static void test_cannot_write(void **state)
{
	const struct synth_opts o = { shape_named("tiny"), DTYPE_F32, DTYPE_F32,
		1 };
	struct err e = { 0 };
	char path[4200];

	snprintf(path, sizeof(path), "%s/none/x.gguf", harness_tmp());
	assert_int_equal(synth_write(path, &o, &e), -ENOENT);
	assert_non_null(strstr(e.text, "none/x.gguf"));
	/* /dev/full is a device and must not be replaced by a file */
	assert_int_equal(synth_write("/dev/full", &o, &e), -EINVAL);
}

/* ---- the vocabulary ---- */

static int by_text(const void *a, const void *b)
{
	const struct gguf_str *x = a, *y = b;
	const size_t n = x->len < y->len ? x->len : y->len;
	const int c = memcmp(x->data, y->data, n);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

static bool is_token(
	const struct gguf_str *sorted, uint32_t n, const char *data, size_t len)
{
	const struct gguf_str want = { data, len };

	return bsearch(&want, sorted, n, sizeof(want), by_text);
}

static void check_vocab(const struct synth_vocab *v, uint32_t first_special)
{
	struct gguf_str *sorted = malloc(v->n * sizeof(*sorted));
	char joined[64];

	memcpy(sorted, v->token, v->n * sizeof(*sorted));
	qsort(sorted, v->n, sizeof(*sorted), by_text);
	for (uint32_t i = 1; i < v->n; i++)
		if (!by_text(&sorted[i - 1], &sorted[i]))
			fail_msg("'%.*s' occurs twice", (int)sorted[i].len,
				sorted[i].data);
	for (uint32_t i = 0; i < v->n_merges; i++) {
		const char *space =
			memchr(v->merge[i].data, ' ', v->merge[i].len);
		const size_t left = (size_t)(space - v->merge[i].data);
		const size_t right = v->merge[i].len - left - 1;

		memcpy(joined, v->merge[i].data, left);
		memcpy(joined + left, space + 1, right);
		assert_true(is_token(sorted, v->n, joined, left));
		assert_true(is_token(sorted, v->n, space + 1, right));
		assert_true(is_token(sorted, v->n, joined, left + right));
	}
	for (uint32_t i = 0; i < v->n; i++)
		assert_int_equal(v->type[i],
			i < 256 + v->n_merges                         ? 1
				: memcmp(v->token[i].data, "[PAD", 4) ? 3
								      : 5);
	assert_true(v->n_merges + 256 <= first_special);
	free(sorted);
}

static void test_vocabularies(void **state)
{
	static const struct {
		enum shape_vocab family;
		uint32_t n, first, id;
		const char *text;
		uint32_t least_merges;
	} want[] = {
		{ SHAPE_QWEN, 151936, 151643, 151645, "<|im_end|>", 2000 },
		{ SHAPE_LLAMA3, 128256, 128000, 128009, "<|eot_id|>", 2000 },
		{ SHAPE_LLAMA3, 608, 592, 598, "<|start_header_id|>", 300 },
		{ SHAPE_LLADA, 126464, 126080, 126348, "<|eot_id|>", 2000 },
		{ SHAPE_DREAM, 152064, 151643, 151645, "<|im_end|>", 2000 },
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		struct synth_vocab v;

		assert_int_equal(synth_vocab_init(&v, want[i].family, want[i].n,
					 want[i].first),
			0);
		assert_int_equal(v.n, want[i].n);
		assert_true(gguf_str_is(v.token[0], "!"));
		assert_true(gguf_str_is(v.token[want[i].id], want[i].text));
		assert_true(v.n_merges >= want[i].least_merges);
		check_vocab(&v, want[i].first);
		synth_vocab_release(&v);
	}
}

/* The special tokens have the ids that the models' makers gave them. */
static void test_masks(void **state)
{
	static const struct {
		const char *shape, *text;
		uint32_t mask, bos, eos, eot, pad;
	} want[] = {
		{ "llada-8b", "<|mdm_mask|>", 126336, 126080, 126081, 126348,
			126081 },
		{ "dream-7b", "<|mask|>", 151666, 151665, 151643, 151645,
			151643 },
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const struct shape *s = shape_named(want[i].shape);
		struct synth_vocab v;

		assert_int_equal(synth_vocab_init(&v, s->vocab, s->n_vocab,
					 s->first_special),
			0);
		assert_int_equal(v.mask, want[i].mask);
		assert_true(gguf_str_is(v.token[v.mask], want[i].text));
		assert_int_equal(v.bos, want[i].bos);
		assert_int_equal(v.eos, want[i].eos);
		assert_int_equal(v.eot, want[i].eot);
		assert_int_equal(v.pad, want[i].pad);
		synth_vocab_release(&v);
	}
}

/* Every byte can be tokenized and read back, and frequent letters are
 * merged. */
static void test_tokenizes(void **state)
{
	static const char latin[] = "the tea in the inn, h\xc3\xa9llo\n\t\x01";
	struct gguf *g = NULL;
	struct tokenizer *t = NULL;
	struct token_list ids = { 0 };
	struct strbuf text = STRBUF_INIT;
	struct detokenizer d = { 0 };
	struct err e = { 0 };

	assert_ok(gguf_open(&g, tiny(DTYPE_Q8_0, DTYPE_Q8_0, 1), &e), &e);
	assert_ok(tokenizer_open(&t, g, &e), &e);
	assert_ok(tokenize(t, latin, strlen(latin), 0, NULL, 0, &ids, &e), &e);
	assert_true(ids.n < strlen(latin));
	d.tok = t;
	for (size_t i = 0; i < ids.n; i++)
		assert_int_equal(detokenize(&d, ids.id[i], &text), 0);
	detokenize_end(&d, &text);
	assert_string_equal(text.data, latin);
	assert_true(tokenizer_is_eog(t, tokenizer_eos(t)));
	assert_true(tokenizer_adds_bos(t));
	strbuf_release(&text);
	free(ids.id);
	tokenizer_close(t);
	gguf_close(g);
}

/* ---- inspecting the file ---- */

static void test_inspect(void **state)
{
	struct gguf *g = NULL;
	struct inspection in;
	struct err e = { 0 };

	assert_ok(gguf_open(&g, tiny(DTYPE_Q4_0, DTYPE_Q8_0, 1), &e), &e);
	inspect_gguf(&in, g);
	assert_string_equal(in.arch, "llama");
	assert_string_equal(in.tokenizer, "gpt2, pre llama-bpe");
	assert_string_equal(in.chat, "llama-3");
	assert_int_equal(in.layers, 4);
	assert_int_equal(in.head_dim, 16);
	assert_int_equal(in.vocab, 608);
	assert_true(in.tied);

	json_t *all = inspect_json("x\xff.gguf", g);
	json_t *tensors = json_object_get(all, "tensors");
	uint64_t bytes = 0;
	json_t *one;
	size_t i;

	assert_string_equal(
		json_string_value(json_object_get(all, "file")), "x\\xff.gguf");
	assert_int_equal(json_array_size(tensors), gguf_n_tensors(g));
	json_array_foreach(tensors, i, one) bytes +=
		(uint64_t)json_integer_value(json_object_get(one, "bytes"));
	assert_int_equal(bytes, in.tensor_bytes);
	assert_int_equal(
		json_array_size(json_object_get(all, "keys")), gguf_n_kv(g));
	one = json_object_get(json_object_get(all, "totals"), "q8_0");
	assert_int_equal(
		json_integer_value(json_object_get(one, "tensors")), 4);
	json_decref(all);
	gguf_close(g);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_loads),
	cmocka_unit_test(test_diffusion),
	cmocka_unit_test(test_experts),
	cmocka_unit_test(test_same_seed),
	cmocka_unit_test(test_distribution),
	cmocka_unit_test(test_routers),
	cmocka_unit_test(test_progress),
	cmocka_unit_test(test_cannot_write),
	cmocka_unit_test(test_vocabularies),
	cmocka_unit_test(test_masks),
	cmocka_unit_test(test_tokenizes),
	cmocka_unit_test(test_inspect),
};

TEST_FILE(tests)
