#include "host/head/exit_head.h"

#include "base/err.h"
#include "host/model/model.h"
#include "tensor/gguf.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define ARCH "tandem-exit"
/* Number of values of a row that are decoded at a time: a multiple of the block
 * size of every type. */
#define PIECE 256

struct exit_head {
	struct gguf *gguf; /* owned */
	uint32_t layers, n_embd, n_vocab;
	double eps;
	const float *norm;     /* [n_embd], in the mapped file */
	const uint8_t *weight; /* [n_vocab][row_bytes], in the mapped file */
	const struct dtype_info *type;
	size_t row_bytes;
};

/* ---- opening ------------------------------------------------------------- */

/* Return an error if the file's value of `key` differs from `of_target`, the
 * target model's value. */
static int check_same(const struct gguf *g, const char *key, uint32_t of_target,
	struct err *e)
{
	uint64_t v;
	int ret = gguf_need(gguf_u64(g, key, &v, e), key, e);

	if (ret || v == of_target)
		return ret;
	return err_set(e, EINVAL,
		"key '%s' is %llu, but the target's value is %u: this exit "
		"predictor was made for another model",
		key, (unsigned long long)v, of_target);
}

static int check_shape(const struct gguf_tensor *t, uint64_t rows,
	uint64_t cols, struct err *e)
{
	if (t->dim[0] == cols && t->dim[1] == rows &&
		t->n_dims <= (rows == 1 ? 1u : 2u))
		return 0;
	return err_set(e, EINVAL,
		"tensor '%.*s' has %u dimensions, %llu x %llu x ...; the "
		"target needs %llu x %llu",
		(int)t->name.len, t->name.data, t->n_dims,
		(unsigned long long)t->dim[0], (unsigned long long)t->dim[1],
		(unsigned long long)cols, (unsigned long long)rows);
}

static int read_file(
	struct exit_head *h, const struct model *target, struct err *e)
{
	static const char layer_key[] = ARCH ".layer";
	static const char eps_key[] = ARCH ".layer_norm_rms_epsilon";
	static const char key[] = "general.architecture";
	struct gguf_str arch;
	uint64_t layers;
	char shown[64];
	int ret = gguf_need(gguf_str(h->gguf, key, &arch, e), key, e);

	if (ret)
		return ret;
	if (!gguf_str_is(arch, ARCH))
		return err_set(e, EINVAL,
			"the architecture is '%s'; an exit predictor's is "
			"'" ARCH "'",
			gguf_show(arch, shown, sizeof(shown)));

	h->n_embd = target->n_embd;
	h->n_vocab = target->n_vocab;
	ret = check_same(h->gguf, ARCH ".embedding_length", h->n_embd, e);
	if (!ret)
		ret = check_same(h->gguf, ARCH ".vocab_size", h->n_vocab, e);
	if (!ret)
		ret = gguf_need(
			gguf_u64(h->gguf, layer_key, &layers, e), layer_key, e);
	if (ret)
		return ret;
	if (layers < 1 || layers >= target->n_layer)
		return err_set(e, EINVAL,
			"key '%s' is %llu; for a target of %u layers it must "
			"be 1 to %u",
			layer_key, (unsigned long long)layers, target->n_layer,
			target->n_layer - 1);
	h->layers = (uint32_t)layers;
	ret = gguf_need(gguf_f64(h->gguf, eps_key, &h->eps, e), eps_key, e);
	if (ret)
		return ret;
	if (!(h->eps >= 0 && h->eps < 1))
		return err_set(e, EINVAL, "key '%s' is %g, must be 0 to 1",
			eps_key, h->eps);

	for (size_t i = 0; i < gguf_n_tensors(h->gguf) && !ret; i++) {
		const struct gguf_tensor *t = gguf_tensor_at(h->gguf, i);

		if (gguf_str_is(t->name, "exit_norm.weight")) {
			h->norm = t->data;
			ret = t->type == DTYPE_F32
				? check_shape(t, 1, h->n_embd, e)
				: err_set(e, ENOTSUP,
					  "tensor 'exit_norm.weight' is of "
					  "type %s; a norm must be f32",
					  dtype_info(t->type)->name);
		} else if (gguf_str_is(t->name, "exit.weight")) {
			h->weight = t->data;
			h->type = dtype_info(t->type);
			h->row_bytes = dtype_row_bytes(t->type, h->n_embd);
			ret = check_shape(t, h->n_vocab, h->n_embd, e);
		} else {
			ret = err_set(e, ENOTSUP,
				"tensor '%s' is not supported: it may change "
				"what the exit predictor computes",
				gguf_show(t->name, shown, sizeof(shown)));
		}
	}
	if (ret)
		return ret;
	if (!h->norm || !h->weight)
		return err_set(e, EINVAL, "tensor '%s' is missing",
			h->norm ? "exit.weight" : "exit_norm.weight");
	return 0;
}

int exit_head_open(struct exit_head **out, const char *path,
	const struct model *target, struct err *e)
{
	struct exit_head *h = calloc(1, sizeof(*h));
	int ret;

	if (!h)
		return err_set(e, ENOMEM, "no memory for an exit predictor");
	ret = gguf_open(&h->gguf, path, e);
	if (ret)
		goto fail;
	ret = read_file(h, target, e);
	if (ret) {
		err_in(e, "'%s'", path);
		goto fail;
	}
	*out = h;
	return 0;
fail:
	exit_head_close(h);
	return ret;
}

void exit_head_close(struct exit_head *h)
{
	if (!h)
		return;
	gguf_close(h->gguf);
	free(h);
}

uint32_t exit_head_layers(const struct exit_head *h)
{
	return h->layers;
}

/* ---- scoring ------------------------------------------------------------- */

void exit_head_score(const struct exit_head *h, const float *hidden,
	const int32_t *token, uint32_t n, float *score)
{
	double factor, sum = 0;
	float w[PIECE];

	for (uint32_t i = 0; i < h->n_embd; i++)
		sum += (double)hidden[i] * hidden[i];
	factor = 1 / sqrt(sum / h->n_embd + h->eps);

	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *row =
			h->weight + (size_t)token[i] * h->row_bytes;
		uint32_t some;

		assert(token[i] >= 0 && (uint32_t)token[i] < h->n_vocab);
		/* Dot product of the token's row of the output matrix and the
		 * normed state. The norm's common factor `factor` is applied at
		 * the end. */
		sum = 0;
		for (uint32_t at = 0; at < h->n_embd; at += some) {
			some = h->n_embd - at < PIECE ? h->n_embd - at : PIECE;
			h->type->to_f32(w,
				row + at / h->type->block * h->type->bytes,
				some);
			for (uint32_t k = 0; k < some; k++)
				sum += (double)hidden[at + k] *
					h->norm[at + k] * w[k];
		}
		score[i] = (float)(factor * sum);
	}
}
