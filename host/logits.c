#include "host/logits.h"

#include "base/err.h"
#include "base/workers.h"
#include "host/model/model.h"
#include "tensor/kern.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

/* Rows of the output matrix a part: some 100 KB, long enough to be worth
 * handing out, short enough that the threads end together. */
#define PART_ROWS 256

struct logits {
	const struct model *model;
	const struct kern *kern;
	struct workers *workers;
	XXH64_state_t *hash;
	uint64_t rows;
	size_t row_bytes, scratch_floats;
	float *norm_weight; /* [n_embd], aligned as kernels want it */
	float *normed;      /* [n_embd] */
	float *scratch;     /* [threads][scratch_floats] */
	float *out;         /* of the row in progress */
};

int logits_open(struct logits **out, const struct model *m, unsigned threads,
	struct err *e)
{
	struct logits *l = calloc(1, sizeof(*l));
	int ret;

	if (!l)
		return err_set(e, ENOMEM, "no memory for logits");
	l->model = m;
	l->row_bytes = dtype_row_bytes(m->output->type, m->n_embd);
	l->scratch_floats = kern_matmul_scratch(m->n_embd);
	l->norm_weight = malloc(m->n_embd * sizeof(float));
	l->normed = malloc(m->n_embd * sizeof(float));
	/* One more float: kernels that need no scratch get a place, too. */
	l->scratch = malloc((threads * l->scratch_floats + 1) * sizeof(float));
	l->hash = XXH64_createState();
	if (!l->norm_weight || !l->normed || !l->scratch || !l->hash) {
		ret = err_set(e, ENOMEM, "no memory for logits");
		goto fail;
	}
	XXH64_reset(l->hash, 0);
	dtype_info(DTYPE_F32)->to_f32(
		l->norm_weight, m->output_norm->data, m->n_embd);
	ret = kern_select(&l->kern, e);
	if (!ret)
		ret = workers_open(&l->workers, threads, e);
	if (ret)
		goto fail;
	*out = l;
	return 0;
fail:
	logits_close(l);
	return ret;
}

void logits_close(struct logits *l)
{
	if (!l)
		return;
	workers_close(l->workers);
	XXH64_freeState(l->hash);
	free(l->norm_weight);
	free(l->normed);
	free(l->scratch);
	free(l);
}

static void logits_part(void *arg, unsigned part, unsigned thread)
{
	struct logits *l = arg;
	const struct model *m = l->model;
	uint32_t first = part * PART_ROWS;
	uint32_t n = m->n_vocab - first;

	if (n > PART_ROWS)
		n = PART_ROWS;
	l->kern->matmul(l->out + first, n, l->normed, m->n_embd, 1,
		m->output->type,
		(const char *)m->output->data + first * l->row_bytes, n,
		m->n_embd, l->scratch + thread * l->scratch_floats);
}

void logits_row(struct logits *l, const float *hidden, float *out)
{
	const struct model *m = l->model;

	l->kern->rmsnorm(
		l->normed, hidden, l->norm_weight, m->n_embd, m->norm_eps);
	l->out = out;
	workers_run(l->workers, logits_part, l,
		(m->n_vocab + PART_ROWS - 1) / PART_ROWS);
	XXH64_update(l->hash, out, m->n_vocab * sizeof(*out));
	l->rows++;
}

uint64_t logits_rows(const struct logits *l)
{
	return l->rows;
}

uint64_t logits_hash(const struct logits *l)
{
	return XXH64_digest(l->hash);
}
