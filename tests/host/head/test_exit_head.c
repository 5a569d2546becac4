/*
 * Exit predictors, which score tokens by the hidden state after a middle layer.
 * The scores are compared with sums in double precision over weights that the
 * test decodes itself. The weights are in files that the test writes byte by
 * byte, and in the bundled predictor. Other tests check files that are refused.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "host/head/exit_head.h"
#include "host/model/model.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/tensor/gguf_build.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* more than a piece (a part of a row that is summed at a time), and not a
 * multiple of a piece */
#define EMBD  288
#define VOCAB 96
#define EPS   0.25f /* large enough to affect the scores */

/* The contents of the file of an exit predictor. A refused file has one wrong
 * value. */
struct head_file {
	const char *arch, *norm_name, *weight_name, *more;
	uint32_t layer, n_embd, n_vocab;
	uint64_t cols, rows, norm_cols;
	enum dtype type, norm_type;
	bool no_arch, no_layer, no_embd, no_vocab, no_eps, layer_is_text;
	float eps;
};

static const struct head_file good = {
	.arch = "tandem-exit",
	.norm_name = "exit_norm.weight",
	.weight_name = "exit.weight",
	.layer = 2,
	.n_embd = EMBD,
	.n_vocab = VOCAB,
	.cols = EMBD,
	.rows = VOCAB,
	.norm_cols = EMBD,
	.type = DTYPE_Q8_0,
	.norm_type = DTYPE_F32,
	.eps = EPS,
};

/* The target model, which has three layers, and the values of the last file
 * written. */
struct fixture {
	struct model *target;
	struct exit_head *head;
	struct head_file file;
	char path[4200];
	double norm[EMBD], weight[VOCAB][EMBD];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct model_file m = model_file_tiny;

	m.n_layer = 3;
	m.n_embd = EMBD;
	m.n_head = 9;
	m.n_kv_head = 3;
	m.head_dim = 32;
	m.n_vocab = VOCAB;
	f->target = model_file_open(&m);
	f->file = good;
	snprintf(f->path, sizeof(f->path), "%s/exit.gguf", harness_tmp());
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	exit_head_close(f->head);
	model_close(f->target);
	unlink(f->path);
	free(f);
	return 0;
}

/* ---- files --------------------------------------------------------------- */

static void put_f32(struct strbuf *b, float v)
{
	strbuf_add(b, &v, 4);
}

static void put_u32_key(struct strbuf *b, const char *name, uint32_t v)
{
	key(b, name, GGUF_U32);
	u32(b, v);
}

static void put_keys(struct strbuf *b, const struct head_file *h)
{
	if (!h->no_arch) {
		key(b, "general.architecture", GGUF_STRING);
		str(b, h->arch);
	}
	if (h->layer_is_text) {
		key(b, "tandem-exit.layer", GGUF_STRING);
		str(b, "two");
	} else if (!h->no_layer) {
		put_u32_key(b, "tandem-exit.layer", h->layer);
	}
	if (!h->no_embd)
		put_u32_key(b, "tandem-exit.embedding_length", h->n_embd);
	if (!h->no_vocab)
		put_u32_key(b, "tandem-exit.vocab_size", h->n_vocab);
	if (!h->no_eps) {
		key(b, "tandem-exit.layer_norm_rms_epsilon", GGUF_F32);
		put_f32(b, h->eps);
	}
}

static void pad(struct strbuf *b)
{
	while (b->len % 32)
		u8(b, 0);
}

/* Append a block of 32 numbers of 8 bits to `b`, and store the values that the
 * numbers stand for in `out`. The fp16 scale of a block is a power of two from
 * 2^-10 to 2^-3. */
static void put_q8_0(struct strbuf *b, double *out, uint64_t seed)
{
	unsigned power = (unsigned)(rng_uniform(1, seed, 32) * 8);
	uint16_t scale = (uint16_t)((power + 5) << 10);

	strbuf_add(b, &scale, 2);
	for (uint64_t i = 0; i < 32; i++) {
		int q = (int)(rng_uniform(1, seed, i) * 255) - 127;

		u8(b, (uint8_t)q);
		out[i] = q * ldexp(1, (int)power - 10);
	}
}

static void put_values(
	struct strbuf *b, enum dtype type, double *out, uint64_t n, uint64_t id)
{
	for (uint64_t i = 0; i < n; i += type == DTYPE_Q8_0 ? 32 : 1) {
		float v = (float)(rng_uniform(2, id, i) * 2 - 1);
		uint32_t bits;

		if (type == DTYPE_Q8_0) {
			put_q8_0(b, out + i, id * 1000 + i);
			continue;
		}
		memcpy(&bits, &v, 4);
		if (type == DTYPE_BF16) {
			bits &= 0xffff0000;
			strbuf_add(b, (char *)&bits + 2, 2);
		} else {
			u32(b, bits);
		}
		memcpy(&v, &bits, 4);
		out[i] = v;
	}
}

static uint64_t bytes_of(enum dtype type, uint64_t n)
{
	return type == DTYPE_Q8_0    ? n / 32 * 34
		: type == DTYPE_BF16 ? 2 * n
				     : 4 * n;
}

/* Declare the tensors. Each has an offset that is a multiple of 32 and room for
 * its data. */
static void put_tensors(struct strbuf *b, const struct head_file *h)
{
	uint64_t at = 0;

	if (h->norm_name) {
		str(b, h->norm_name);
		u32(b, 1);
		u64(b, h->norm_cols);
		u32(b, h->norm_type);
		u64(b, at);
		at += align_up(bytes_of(h->norm_type, h->norm_cols), 32);
	}
	if (h->weight_name) {
		tensor(b, h->weight_name, h->cols, h->rows, h->type, at);
		at += align_up(bytes_of(h->type, h->cols) * h->rows, 32);
	}
	if (h->more)
		tensor(b, h->more, 4, 2, DTYPE_F32, at);
	pad(b);
}

static void write_file(struct fixture *f)
{
	const struct head_file *h = &f->file;
	double unused[2 * EMBD];
	struct strbuf b = STRBUF_INIT;
	FILE *out;

	header(&b, 3, !!h->norm_name + !!h->weight_name + !!h->more,
		5 - h->no_arch - h->no_embd - h->no_vocab - h->no_eps -
			h->no_layer);
	put_keys(&b, h);
	put_tensors(&b, h);
	if (h->norm_name) {
		put_values(&b, h->norm_type,
			h->norm_cols == EMBD ? f->norm : unused, h->norm_cols,
			1000);
		pad(&b);
	}
	for (uint64_t r = 0; h->weight_name && r < h->rows; r++)
		put_values(&b, h->type,
			h->cols == EMBD && r < VOCAB ? f->weight[r] : unused,
			h->cols, r);
	pad(&b);
	if (h->more)
		data(&b, 32, 32);
	out = fopen(f->path, "w");
	assert_non_null(out);
	assert_int_equal(fwrite(b.data, 1, b.len, out), b.len);
	assert_int_equal(fclose(out), 0);
	strbuf_release(&b);
}

static void open_head(struct fixture *f)
{
	struct err e = { 0 };

	write_file(f);
	exit_head_close(f->head);
	f->head = NULL;
	assert_ok(exit_head_open(&f->head, f->path, f->target, &e), &e);
}

/* ---- scores -------------------------------------------------------------- */

static void state(float *hidden, uint32_t n, uint64_t id, double scale)
{
	for (uint32_t i = 0; i < n; i++)
		hidden[i] = (float)(scale * (rng_uniform(3, id, i) * 2 - 1));
}

/* The score of a token, computed in double precision. Stores the sum of the
 * absolute values of its terms in *size, for the error bound. */
static double naive(const float *hidden, const double *norm, const double *row,
	uint32_t n, double eps, double *size)
{
	double squares = 0, sum = 0, root;

	*size = 0;
	for (uint32_t i = 0; i < n; i++)
		squares += (double)hidden[i] * hidden[i];
	root = sqrt(squares / n + eps);
	for (uint32_t i = 0; i < n; i++) {
		double term = hidden[i] / root * norm[i] * row[i];

		sum += term;
		*size += fabs(term);
	}
	return sum;
}

static void check_scores(struct fixture *f)
{
	static const double scales[] = { 1, 1e-3, 300 };
	int32_t token[VOCAB];
	float hidden[EMBD], score[VOCAB], alone;

	for (size_t s = 0; s < ARRAY_LEN(scales); s++) {
		state(hidden, EMBD, s, scales[s]);
		for (int32_t i = 0; i < VOCAB; i++)
			/* all tokens, not in order */
			token[i] = i * 35 % VOCAB;
		exit_head_score(f->head, hidden, token, VOCAB, score);
		for (int i = 0; i < VOCAB; i++) {
			double size,
				want = naive(hidden, f->norm,
					f->weight[token[i]], EMBD,
					(double)f->file.eps, &size);

			assert_close(
				score[i], want, 1e-7 * size + 1e-30, "score");
			exit_head_score(f->head, hidden, token + i, 1, &alone);
			assert_memory_equal(&alone, &score[i], sizeof(alone));
		}
	}
}

static void scores_are_those_of_the_definition(void **state)
{
	static const enum dtype types[] = { DTYPE_Q8_0, DTYPE_F32, DTYPE_BF16 };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		f->file.type = types[i];
		open_head(f);
		assert_int_equal(exit_head_layers(f->head), 2);
		check_scores(f);
	}
}

static void epsilon_and_layer_are_the_files(void **state)
{
	struct fixture *f = *state;
	float hidden[EMBD] = { 0 }, score;

	f->file.layer = 1;
	f->file.eps = 1e-6f;
	open_head(f);
	assert_int_equal(exit_head_layers(f->head), 1);
	check_scores(f);
	/* A hidden state of zeros gives the score 0. */
	exit_head_score(f->head, hidden, (const int32_t[]){ 5 }, 1, &score);
	assert_true(score == 0);
	/* If no token is requested, nothing is written. */
	score = 7;
	exit_head_score(f->head, hidden, NULL, 0, &score);
	assert_true(score == 7);
}

/* ---- the predictor that comes with the program --------------------------- */

struct bytes {
	uint8_t *data;
	size_t n;
};

static struct bytes read_all(const char *path)
{
	FILE *f = fopen(path, "r");
	struct bytes b = { 0 };

	if (!f)
		fail_msg("cannot open '%s' from the tree's root", path);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	b.n = (size_t)ftell(f);
	b.data = malloc(b.n);
	rewind(f);
	assert_int_equal(fread(b.data, 1, b.n, f), b.n);
	fclose(f);
	return b;
}

/* Returns the offset directly after a tensor's name in its declaration. */
static size_t after_name(struct bytes b, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 8; i + len < b.n; i++)
		if (!memcmp(b.data + i, name, len) && b.data[i - 8] == len &&
			!b.data[i - 7])
			return i + len;
	fail_msg("no tensor '%s'", name);
	return 0;
}

static uint64_t number(struct bytes b, size_t at, unsigned size)
{
	uint64_t v = 0;

	memcpy(&v, b.data + at, size);
	return v;
}

/* Decode one value of a row. A block has an fp16 scale (normal, or 0) and 32
 * numbers of 8 bits. */
static double q8_0_at(const uint8_t *row, uint32_t i)
{
	const uint8_t *block = row + i / 32 * 34;
	unsigned half = block[0] | (unsigned)block[1] << 8;
	double scale = ldexp(1024 + (half & 1023), (int)(half >> 10 & 31) - 25);

	if (half >> 10 == 0)
		scale = ldexp(half, -24);
	return (int8_t)block[2 + i % 32] * scale;
}

static void check_shipped(const struct exit_head *h, struct bytes b,
	size_t norm_at, size_t weight_at)
{
	enum { N = 384, ROW = N / 32 * 34 };
	static const int32_t token[] = { 0, 1, 2047, 1000, 513 };
	float hidden[N], w[N], score[ARRAY_LEN(token)];
	double norm[N], row[N];

	memcpy(w, b.data + norm_at, sizeof(w));
	for (int i = 0; i < N; i++)
		norm[i] = w[i];
	state(hidden, N, 9, 4);
	exit_head_score(h, hidden, token, ARRAY_LEN(token), score);
	for (size_t t = 0; t < ARRAY_LEN(token); t++) {
		double size, want;

		for (uint32_t i = 0; i < N; i++)
			row[i] = q8_0_at(
				b.data + weight_at + (size_t)token[t] * ROW, i);
		want = naive(hidden, norm, row, N, 1e-5, &size);
		assert_close(score[t], want, 1e-6 * size, "score");
		assert_true(size > 1);
	}
}

static void shipped_predictor_is_of_the_shipped_target(void **unused)
{
	struct bytes b = read_all("flash/models/exit.gguf");
	size_t norm = after_name(b, "exit_norm.weight");
	size_t weight = after_name(b, "exit.weight");
	/* The weight is declared last; its declaration has two dimensions, a
	 * type and an offset. The data follows at the next offset that is a
	 * multiple of 32. */
	size_t start = (weight + 4 + 16 + 4 + 8 + 31) / 32 * 32;
	struct exit_head *h;
	struct model *target;
	struct err e = { 0 };

	(void)unused;
	assert_true(norm < weight);
	assert_int_equal(number(b, weight + 20, 4), DTYPE_Q8_0);
	assert_int_equal(number(b, weight + 4, 8), 384);
	assert_int_equal(number(b, weight + 12, 8), 2048);
	assert_ok(
		model_open(&target, "flash/models/target.gguf", NULL, NULL, &e),
		&e);
	assert_ok(exit_head_open(&h, "flash/models/exit.gguf", target, &e), &e);
	assert_in_range(exit_head_layers(h), 1, target->n_layer - 1);
	check_shipped(h, b, start + number(b, norm + 4 + 8 + 4, 8),
		start + number(b, weight + 4 + 16 + 4, 8));
	exit_head_close(h);
	model_close(target);
	free(b.data);
}

/* ---- refusals ------------------------------------------------------------ */

static void refused(struct fixture *f, int want, const char *want_text)
{
	struct err e = { 0 };
	struct exit_head *h = NULL;
	int ret;

	write_file(f);
	ret = exit_head_open(&h, f->path, f->target, &e);
	if (ret != want || e.code != want || h)
		fail_msg("%s: %d and '%s', expected %d", want_text, ret, e.text,
			want);
	if (!strstr(e.text, want_text) || !strstr(e.text, f->path))
		fail_msg("'%s' does not contain '%s' and the path", e.text,
			want_text);
	f->file = good;
}

static void keys_that_are_wrong_are_refused(void **state)
{
	struct fixture *f = *state;

	f->file.arch = "llama";
	refused(f, -EINVAL, "the architecture is 'llama'");
	f->file.arch = "tandem-exit2";
	refused(f, -EINVAL, "the architecture is 'tandem-exit2'");
	f->file.no_arch = true;
	refused(f, -EINVAL, "general.architecture");
	f->file.n_embd = EMBD + 32;
	refused(f, -EINVAL,
		"embedding_length' is 320, but the target's value is 288");
	f->file.no_embd = true;
	refused(f, -EINVAL, "embedding_length' is missing");
	f->file.n_vocab = VOCAB - 1;
	refused(f, -EINVAL, "vocab_size' is 95, but the target's value is 96");
	f->file.no_vocab = true;
	refused(f, -EINVAL, "vocab_size' is missing");
	f->file.no_eps = true;
	refused(f, -EINVAL, "layer_norm_rms_epsilon' is missing");
	f->file.eps = -1;
	refused(f, -EINVAL, "layer_norm_rms_epsilon' is -1");
	f->file.eps = NAN;
	refused(f, -EINVAL, "layer_norm_rms_epsilon' is ");
	f->file.no_layer = true;
	refused(f, -EINVAL, "layer' is missing");
	f->file.layer_is_text = true;
	refused(f, -EINVAL, "tandem-exit.layer");
}

static void layers_that_leave_nothing_are_refused(void **state)
{
	static const uint32_t layers[] = { 0, 3, 4, UINT32_MAX };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
		char want_text[64];

		f->file.layer = layers[i];
		snprintf(want_text, sizeof(want_text),
			"layer' is %u; for a target of 3 layers it must be 1 "
			"to 2",
			layers[i]);
		refused(f, -EINVAL, want_text);
	}
}

static void tensors_that_are_wrong_are_refused(void **state)
{
	struct fixture *f = *state;

	f->file.weight_name = NULL;
	refused(f, -EINVAL, "tensor 'exit.weight' is missing");
	f->file.norm_name = NULL;
	refused(f, -EINVAL, "tensor 'exit_norm.weight' is missing");
	f->file.more = "exit.bias";
	refused(f, -ENOTSUP, "tensor 'exit.bias' is not supported");
	f->file.norm_type = DTYPE_BF16;
	refused(f, -ENOTSUP, "is of type bf16; a norm must be f32");
	f->file.norm_cols = EMBD - 1;
	refused(f, -EINVAL, "'exit_norm.weight' has 1 dimensions, 287 x 1");
	f->file.cols = EMBD - 32;
	refused(f, -EINVAL, "'exit.weight' has 2 dimensions, 256 x 96");
	f->file.cols = EMBD + 32;
	refused(f, -EINVAL, "'exit.weight' has 2 dimensions, 320 x 96");
	f->file.rows = VOCAB - 1;
	refused(f, -EINVAL, "the target needs 288 x 96");
	f->file.rows = VOCAB + 1;
	refused(f, -EINVAL, "the target needs 288 x 96");
}

static void files_that_are_none_are_refused(void **state)
{
	struct fixture *f = *state;
	struct exit_head *h = NULL;
	struct err e = { 0 };

	assert_int_equal(
		exit_head_open(&h, "/no/such/file", f->target, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/no/such/file"));
	write_file(f);
	assert_int_equal(truncate(f->path, 900), 0);
	assert_int_equal(exit_head_open(&h, f->path, f->target, &e), -EINVAL);
	assert_null(h);
	exit_head_close(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(scores_are_those_of_the_definition),
	TEST(epsilon_and_layer_are_the_files),
	cmocka_unit_test(shipped_predictor_is_of_the_shipped_target),
	TEST(keys_that_are_wrong_are_refused),
	TEST(layers_that_leave_nothing_are_refused),
	TEST(tensors_that_are_wrong_are_refused),
	TEST(files_that_are_none_are_refused),
};

TEST_FILE(tests)
