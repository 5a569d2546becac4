#include "host/session/refresh.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/model/model.h"
#include "host/npu/phone.h"
#include "host/session/batch.h"
#include "host/session/host_layers.h"
#include "host/session/kv_mirror.h"
#include "host/session/logits.h"
#include "host/session/sequence.h"
#include "host/session/session_impl.h"
#include "host/trace/trace.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum state { NOTHING, UNDER_WAY, FINISHED };

struct refresh {
	struct session *s;
	bool best_effort;
	struct host_layers *layers;
	struct kv_mirror mirror;
	struct batch batch; /* scratch memory for checking rows */
	struct refresh_stats stats;

	/* State and input of the refresh that was started most recently. The
	 * refresh thread reads the input while it computes. */
	enum state state;
	uint32_t sequence;
	struct host_rows rows;
	uint32_t room; /* number of rows for which memory is allocated */
	uint32_t *position, *end;
	float *hidden;
	float *attention;

	pthread_t thread;
	bool threaded; /* whether the thread exists */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool computing, stop; /* both are guarded by `lock` */
};

/* ---- the thread ---------------------------------------------------------- */

static void *refresh_main(void *arg)
{
	struct refresh *r = arg;

	pthread_setname_np(pthread_self(), "refresh");
	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		if (!r->computing) {
			pthread_cond_wait(&r->changed, &r->lock);
			continue;
		}
		pthread_mutex_unlock(&r->lock);
		trace_begin(r->s->trace, TRACE_REFRESH, r->rows.n, 0);
		host_layers_run(r->layers, &r->rows);
		trace_end(r->s->trace, TRACE_REFRESH);
		pthread_mutex_lock(&r->lock);
		r->computing = false;
		pthread_cond_broadcast(&r->changed);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static void set(struct refresh *r, bool *flag)
{
	pthread_mutex_lock(&r->lock);
	*flag = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

static bool is_computed(struct refresh *r, bool wait)
{
	bool computing;

	pthread_mutex_lock(&r->lock);
	while (wait && r->computing)
		pthread_cond_wait(&r->changed, &r->lock);
	computing = r->computing;
	pthread_mutex_unlock(&r->lock);
	return !computing;
}

/* ---- opening ------------------------------------------------------------- */

int refresh_open(struct refresh **out, struct session *s,
	const struct refresh_opts *opts, struct err *e)
{
	/* By default use fewer threads than the device (plan.threads), because
	 * the device computes at the same time. */
	uint32_t threads = opts->threads ? opts->threads : s->plan.threads / 4;
	struct wire_model m = session_wire_model(s);
	sigset_t all, old;
	struct refresh *r;
	int ret;

	if (s->model->causal)
		return err_set(e, EINVAL,
			"cannot refresh the cache of a causal model, where "
			"later tokens do not change the cached keys and "
			"values of earlier tokens");
	if (s->plan.resident < s->model->n_layer)
		return err_set(e, ENOTSUP,
			"a refresh of the cache on the host needs all layers "
			"in memory, but %u of %u are streamed from flash; try "
			"a larger --dram-budget",
			s->model->n_layer - s->plan.resident,
			s->model->n_layer);
	if (s->model->n_expert)
		return err_set(e, ENOTSUP,
			"a refresh of the cache on the host is not possible "
			"for a model with experts; try --refresh none");
	r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(e, ENOMEM,
			"no memory for the host's refresh of the KV cache");
	r->s = s;
	r->best_effort = opts->best_effort;
	kv_mirror_init(
		&r->mirror, s->sequences, s->model->n_layer, s->plan.kv_stride);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	ret = host_layers_open(&r->layers, &m, s->block, s->n_blocks,
		threads ? threads : 1, e);
	if (ret)
		goto fail;
	/* Block all signals in the new thread; the main thread handles them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&r->thread, NULL, refresh_main, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret) {
		ret = err_sys(e, ret,
			"cannot start the thread that refreshes the cache (out "
			"of memory, or more threads than ulimit -u allows)");
		goto fail;
	}
	r->threaded = true;
	*out = r;
	return 0;
fail:
	refresh_close(r);
	return ret;
}

void refresh_close(struct refresh *r)
{
	if (!r)
		return;
	if (r->threaded) {
		refresh_drop(r);
		set(r, &r->stop);
		pthread_join(r->thread, NULL);
	}
	host_layers_close(r->layers);
	kv_mirror_release(&r->mirror);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	free(r->position);
	free(r->end);
	free(r->hidden);
	free(r->attention);
	free(r);
}

/* ---- starting ------------------------------------------------------------ */

/* Return -EBUSY while a pass is running, because then the device may write to
 * the cache. */
static int check_between(
	const struct session *s, const char *what, struct err *e)
{
	return s->n_inflight
		? err_set(e, EBUSY,
			  "%s while a pass is running: the cache can be "
			  "changed only between passes",
			  what)
		: 0;
}

static int check_rows(struct refresh *r, const struct rows *rows, struct err *e)
{
	const struct session *s = r->s;
	const struct batch_limits limits = {
		.block_length = s->model->block_length,
		.rows = UINT32_MAX,
		.n_vocab = s->model->n_vocab,
		.context = s->plan.context,
	};
	int ret;

	if (!rows->n || rows->visibility == VISIBILITY_TREE)
		return err_set(e, EINVAL,
			"%s cannot be refreshed; give at least one row, and "
			"only rows at cached positions",
			rows->n ? "a tree" : "an empty list");
	ret = batch_init(&r->batch, rows, &limits, s->sequences, e);
	if (!ret && r->batch.n_parts > 1)
		ret = err_set(e, EINVAL,
			"a refresh computes rows of one sequence, not of %u",
			r->batch.n_parts);
	if (!ret && r->batch.claim[0].to > r->batch.part[0].length)
		ret = err_set(e, EINVAL,
			"position %u cannot be refreshed: only %u tokens are "
			"cached",
			r->batch.claim[0].to - 1, r->batch.part[0].length);
	return ret;
}

/* Copy the rows, which have already been checked, into the arrays that the
 * refresh thread reads. */
static int take_rows(struct refresh *r, const struct rows *rows, struct err *e)
{
	const struct model *m = r->s->model;
	uint32_t length = r->batch.part[0].length;
	int ret = 0;

	r->sequence = rows->row[0].sequence;
	for (uint32_t i = 0; i < rows->n && !ret; i++) {
		const struct row *row = &rows->row[i];

		r->position[i] = row->position;
		r->end[i] = rows->visibility == VISIBILITY_BLOCK ? row->end
								 : length;
		kv_mirror_spoil(&r->mirror, row->position);
		ret = model_embed(m, (uint32_t)row->token,
			r->hidden + (size_t)i * m->n_embd, e);
	}
	r->rows = (struct host_rows){
		.n = rows->n,
		.position = r->position,
		.end = r->end,
		.x = r->hidden,
		.kv = r->mirror.data,
		.slots = r->mirror.slots,
		.attention = r->attention,
		.length = length,
	};
	return ret;
}

/* Reserve memory for the rows, and update the mirror (the host's copy of the
 * sequence's cache). */
static int prepare(struct refresh *r, const struct rows *rows, bool attention,
	uint32_t *copied, struct err *e)
{
	const struct model *m = r->s->model;
	uint32_t length = r->batch.part[0].length, n = rows->n;
	size_t bytes;
	int ret = 0;

	if (n > r->room) {
		free(r->position);
		free(r->end);
		free(r->hidden);
		r->room = 0;
		r->position = calloc(n, sizeof(*r->position));
		r->end = calloc(n, sizeof(*r->end));
		r->hidden = malloc((size_t)n * m->n_embd * sizeof(float));
		if (r->position && r->end && r->hidden)
			r->room = n;
		else
			ret = err_set(e, ENOMEM,
				"no memory to refresh %u positions of the KV "
				"cache",
				n);
	}
	free(r->attention);
	r->attention = NULL;
	if (!ret && attention) {
		if (!size_mul(&bytes, (size_t)n * m->n_layer,
			    length * sizeof(float)))
			r->attention = malloc(bytes);
		if (!r->attention)
			ret = err_set(e, ENOMEM,
				"no memory for the list of positions to which "
				"%u rows attend in %u layers",
				n, m->n_layer);
	}
	if (!ret)
		ret = host_layers_reserve(r->layers, n, length, e);
	return ret ? ret
		   : kv_mirror_follow(
			     &r->mirror, rows->row[0].sequence, copied, e);
}

int refresh_start(struct refresh *r, const struct rows *rows, bool attention,
	struct err *e)
{
	struct session *s = r->s;
	int ret = check_between(s, "a refresh was started", e);
	uint32_t copied, longest = 0;
	struct price p;

	if (!ret && r->state == UNDER_WAY)
		ret = err_set(e, EBUSY,
			"a refresh of the KV cache was started while another "
			"is running");
	if (ret)
		return ret;
	r->state = NOTHING;
	ret = check_rows(r, rows, e);
	if (!ret)
		ret = prepare(r, rows, attention, &copied, e);
	if (!ret)
		ret = take_rows(r, rows, e);
	if (ret)
		return ret;
	r->stats.starts++;
	r->stats.rows += rows->n;
	r->stats.copied += copied;
	/* Charge the copy of the cache, made by prepare(), now, before the
	 * device gets new work. Charge the computation to the time in which the
	 * CPU is idle while the device works. */
	if (s->opts.soc) {
		for (uint32_t i = 0; i < r->rows.n; i++)
			longest = r->end[i] > longest ? r->end[i] : longest;
		pricing_kv_copy(&s->pricing, copied, s->model->n_layer, &p);
		session_add_work_of(s, TRACE_PHONE_REFRESH, &p);
		pricing_refresh(&s->pricing, r->rows.n, longest, attention, &p);
		phone_beside(s->time, &p);
	}
	r->state = UNDER_WAY;
	set(r, &r->computing);
	return 0;
}

/* ---- finishing ----------------------------------------------------------- */

bool refresh_finish(struct refresh *r, bool wait)
{
	struct phone_time *t = r->s->time;

	wait |= !r->best_effort;
	if (r->state != UNDER_WAY)
		return r->state == FINISHED;
	/* With a simulated phone, the results are ready when the phone would
	 * have computed them. Then wait until the refresh thread has really
	 * computed them, because this machine may be slower than the phone. */
	if (r->s->opts.soc) {
		if (wait)
			phone_catch_up(t);
		if (t->beside_ps)
			return false;
		wait = true;
	}
	if (is_computed(r, wait))
		r->state = FINISHED;
	return r->state == FINISHED;
}

void refresh_drop(struct refresh *r)
{
	if (r->state == UNDER_WAY) {
		is_computed(r, true);
		r->s->time->beside_ps = 0;
	}
	r->state = NOTHING;
}

/* ---- results ------------------------------------------------------------- */

const float *refresh_hidden(const struct refresh *r, uint32_t row)
{
	assert(r->state == FINISHED && row < r->rows.n);
	return r->hidden + (size_t)row * r->s->model->n_embd;
}

int refresh_logits(struct refresh *r, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *e)
{
	const float *hidden[LOGITS_ROWS];
	int ret = 0;

	for (uint32_t i = 0, some; i < n && !ret; i += some) {
		some = n - i < LOGITS_ROWS ? n - i : LOGITS_ROWS;
		for (uint32_t k = 0; k < some && !ret; k++) {
			hidden[k] = refresh_hidden(r, row[i + k]);
			if (logits_check(hidden[k], r->s->model->n_embd,
				    row[i + k], NULL))
				ret = err_set(e, EPROTO,
					"the host's refresh of position %u "
					"gave a value that is not a number",
					r->position[row[i + k]]);
		}
		if (!ret)
			ret = session_logits_of(
				r->s, hidden, logits + i, some, e);
	}
	return ret;
}

struct attention_map refresh_attention(const struct refresh *r, uint32_t row)
{
	uint32_t layers = r->s->model->n_layer, length = r->rows.length;

	assert(r->state == FINISHED && row < r->rows.n && r->attention);
	return (struct attention_map){
		r->attention + (size_t)row * layers * length, layers, length
	};
}

/* ---- merging ------------------------------------------------------------- */

/* A range of adjacent positions that were all recomputed. */
struct piece {
	uint32_t at, n;
};

/* Return the longest range of adjacent positions, among the n rows to merge,
 * that begins at the position of row[i]. */
static struct piece piece_at(
	const struct refresh *r, const uint32_t *row, uint32_t n, uint32_t i)
{
	struct piece p = { r->position[row ? row[i] : i], 1 };

	while (i + p.n < n &&
		r->position[row ? row[i + p.n] : i + p.n] == p.at + p.n)
		p.n++;
	return p;
}

int refresh_merge(struct refresh *r, const uint32_t *row, uint32_t n,
	uint32_t first_layer, struct err *e)
{
	struct session *s = r->s;
	int ret = check_between(s, "a merge was requested", e);
	struct price p = { 0 };
	struct piece piece;

	if (!ret && r->state != FINISHED)
		ret = err_set(e, EINVAL,
			"a refresh of the KV cache cannot be merged before it "
			"has finished");
	if (!ret && first_layer > s->model->n_layer)
		ret = err_set(e, EINVAL,
			"a refresh cannot be merged from layer %u on: the "
			"model has %u layers",
			first_layer, s->model->n_layer);
	if (!ret && !sequence_is_open(s->sequences, r->sequence))
		ret = err_set(e, EINVAL,
			"a refresh cannot be merged into sequence %u, which "
			"is not open",
			r->sequence);
	for (uint32_t i = 0; row && i < n && !ret; i++)
		if (row[i] >= r->rows.n || (i && row[i] <= row[i - 1]))
			ret = err_set(e, EINVAL,
				"row %u cannot be merged: row numbers must "
				"ascend and be less than %u",
				row[i], r->rows.n);
	n = row ? n : r->rows.n;
	for (uint32_t l = first_layer; l < s->model->n_layer && !ret; l++)
		for (uint32_t i = 0; i < n && !ret; i += piece.n) {
			piece = piece_at(r, row, n, i);
			ret = session_report_kv(s, 2, e);
			if (!ret)
				ret = kv_mirror_merge(&r->mirror, r->sequence,
					l, piece.at, piece.n, e);
		}
	if (ret)
		return ret;
	for (uint32_t i = 0; i < n && !first_layer; i += piece.n) {
		piece = piece_at(r, row, n, i);
		kv_mirror_merged(&r->mirror, r->sequence, piece.at, piece.n);
	}
	if (s->opts.soc) {
		pricing_kv_copy(
			&s->pricing, n, s->model->n_layer - first_layer, &p);
		session_add_work_of(s, TRACE_PHONE_REFRESH, &p);
	}
	r->stats.merged += n;
	return 0;
}

void refresh_stats(const struct refresh *r, struct refresh_stats *out)
{
	*out = r->stats;
}
