#include "host/api/embedding.h"

#include "base/err.h"
#include "host/api/decoder.h"
#include "host/api/tandem.h"
#include "host/head/scorer.h"
#include "host/model/model.h"
#include "host/session/session.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct embedding {
	const struct model *model;
	/* number of tokens of the prompt; number of tokens that embedding_add
	 * has processed */
	size_t n_tokens, added;
	bool last;   /* the vector is the last token's state, not the mean */
	double *sum; /* [n_embd] sum of the states */
	/* [n_embd] buffer: one token's state after the final norm; in the end,
	 * the embedding */
	float *normed;
};

/* Read the pooling from the model's file: TANDEM_POOLING_MEAN or _LAST. */
static int read_pooling(const struct model *m, unsigned *pooling, struct err *e)
{
	enum { NONE, MEAN, CLS, LAST, RANK };
	uint64_t type = NONE;
	char key[64];
	int ret;

	snprintf(key, sizeof(key), "%s.pooling_type", m->arch);
	ret = gguf_u64(m->gguf, key, &type, e);
	if (ret < 0)
		return ret;
	if (type > LAST || type == CLS)
		return err_set(e, EINVAL,
			"key '%s' of the model is %llu%s, a pooling that is "
			"not supported; use a model with 1 (mean of all "
			"tokens) or 3 (last token)",
			key, (unsigned long long)type,
			type == CLS            ? " (the first token)"
				: type == RANK ? " (a score)"
					       : "");
	*pooling = type == LAST ? TANDEM_POOLING_LAST : TANDEM_POOLING_MEAN;
	return 0;
}

int embedding_open(struct embedding **out, const struct decoder *d,
	unsigned pooling, size_t n, struct err *e)
{
	const struct model *m = d->model;
	struct embedding *x;
	int ret = 0;

	if (!m->causal)
		return err_set(e, EINVAL,
			"'%s' is a diffusion model; embeddings need a model "
			"that generates from left to right",
			d->model_path);
	if (pooling == TANDEM_POOLING_MODEL)
		ret = read_pooling(m, &pooling, e);
	else if (pooling > TANDEM_POOLING_LAST)
		ret = err_set(e, EINVAL,
			"pooling is %u, must be a value of enum tandem_pooling",
			pooling);
	if (ret)
		return ret;
	x = calloc(1, sizeof(*x));
	if (x)
		*x = (struct embedding){ .model = m,
			.n_tokens = n,
			.last = pooling == TANDEM_POOLING_LAST,
			.sum = calloc(m->n_embd, sizeof(*x->sum)),
			.normed = malloc(m->n_embd * sizeof(*x->normed)) };
	if (!x || !x->sum || !x->normed) {
		embedding_close(x);
		return err_set(e, ENOMEM, "no memory for an embedding");
	}
	*out = x;
	return 0;
}

void embedding_close(struct embedding *x)
{
	if (!x)
		return;
	free(x->sum);
	free(x->normed);
	free(x);
}

void embedding_add(struct embedding *x, struct session *s, size_t at,
	uint32_t first, uint32_t rows)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < rows; i++) {
		if (at + i < x->added)
			continue;
		x->added++;
		if (x->last && x->added < x->n_tokens)
			continue;
		used++;
		scorer_norm(x->model, session_hidden(s, first + i), x->normed);
		for (uint32_t k = 0; k < x->model->n_embd; k++)
			x->sum[k] += (double)x->normed[k];
	}
	session_add_states(s, used);
}

bool embedding_is_read(const struct embedding *x)
{
	return x->added == x->n_tokens;
}

/* The sum of the states is scaled to Euclidean norm 1. The mean would give the
 * same vector, so the sum is not divided by the number of states. */
int embedding_values(
	struct embedding *x, const float **values, size_t *n, struct err *e)
{
	double squares = 0, length;

	for (uint32_t i = 0; i < x->model->n_embd; i++)
		squares += x->sum[i] * x->sum[i];
	length = sqrt(squares);
	if (!(length > 0) || !isfinite(length))
		return err_set(e, EDOM,
			"the prompt has no embedding: the norm of its vector "
			"is %g, which is not positive and finite",
			length);
	for (uint32_t i = 0; i < x->model->n_embd; i++)
		x->normed[i] = (float)(x->sum[i] / length);
	*values = x->normed;
	*n = x->model->n_embd;
	return 0;
}
