/* Passes (runs of the model) over given tokens, and other calls for
 * measurements. */
#include "host/api/tandem_pass.h"

#include "base/clock.h"
#include "host/api/options.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/draft/draft_model.h"
#include "host/draft/drafting.h"
#include "host/head/reward.h"
#include "host/method/lever.h"
#include "host/method/methods.h"
#include "host/model/model.h"
#include "host/npu/launch.h"
#include "host/session/logits.h"
#include "ipc/channel.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int tandem_read_weights(struct tandem *t, const char *path)
{
	struct decoder *d = &t->decoder;
	int ret = decoder_find_model(d, path, &t->err);

	if (!ret)
		ret = model_open(&d->model, d->model_path, NULL, NULL, &t->err);
	return tandem_status_of(ret);
}

struct session *tandem_session(const struct tandem *t)
{
	return t->decoder.session;
}

int pass_read(struct session *s, const int32_t *token, size_t n, size_t first,
	const struct pass_reader *to, struct err *e)
{
	uint32_t most = session_max_rows(s), some;
	float *logits = reallocarray(
		NULL, session_model(s)->n_vocab, LOGITS_ROWS * sizeof(*logits));
	int ret = logits ? 0 : err_set(e, ENOMEM, "no memory for logits");

	session_truncate(s, SESSION_TEXT, 0);
	for (size_t at = 0; at < n && !ret; at += some) {
		size_t row = first > at ? first - at : 0;

		some = n - at < most ? (uint32_t)(n - at) : most;
		ret = session_continue(s, SESSION_TEXT, token + at, some, e);
		if (ret)
			break;
		to->read(to->arg, some);
		/* Pass the logits of rows [row, some) of the pass to the reader
		 * `to`. Row 0 is token number `at` of the text. */
		for (uint32_t n_rows; row < some && !ret; row += n_rows) {
			n_rows = some - row < LOGITS_ROWS ? some - (uint32_t)row
							  : LOGITS_ROWS;
			ret = session_logits(
				s, (uint32_t)row, n_rows, logits, e);
			if (!ret)
				ret = session_check_finite(s, e);
			if (!ret)
				ret = to->logits(
					to->arg, at + row, n_rows, logits, e);
		}
		if (!ret)
			ret = session_accept(s, SESSION_TEXT, NULL, some, e);
	}
	free(logits);
	return ret;
}

int tandem_add_bos(
	const struct tandem *t, struct token_list *list, struct err *e)
{
	return decoder_add_bos(&t->decoder, list, e);
}

/* ---- passes that are timed ----------------------------------------------- */

int tandem_start_bare(struct tandem *t, struct err *e)
{
	struct decoder *d = &t->decoder;

	return session_open(&d->session, d->model, &d->session_opts, e);
}

int tandem_prefill(struct tandem *t, const int32_t *token, size_t n,
	uint32_t sequences, float *logits, struct err *e)
{
	struct session *s = t->decoder.session;
	uint32_t row, id;
	int ret;

	session_truncate(s, SESSION_TEXT, 0);
	ret = session_prefill(s, SESSION_TEXT, token, n, NULL, &row, e);
	if (!ret && logits)
		ret = session_logits(s, row, 1, logits, e);
	for (uint32_t i = 1; i < sequences && !ret; i++)
		ret = session_fork(s, SESSION_TEXT, &id, e);
	return ret;
}

int tandem_bare_pass(struct tandem *t, const struct bare_pass *p, float *logits,
	struct bare_pass_times *times, struct err *e)
{
	struct session *s = t->decoder.session;
	uint32_t n = p->sequences * p->rows;
	struct row row[ROWS_SEQUENCES];
	const struct rows rows = { VISIBILITY_TREE, n, row };
	uint64_t ns[3], ps[3];
	int ret;

	assert(n <= ROWS_SEQUENCES);
	session_attend_apart(s, p->apart);
	for (uint32_t i = 0; i < p->sequences; i++) {
		session_truncate(s, i, p->length);
		rows_tree(row + i * p->rows, i, p->length, p->token, NULL,
			p->rows);
		for (uint32_t k = 1; k < p->rows; k++)
			row[i * p->rows + k].parent += (int32_t)(i * p->rows);
	}
	ns[0] = clock_ns();
	ps[0] = session_phone_ps(s);
	ret = session_forward(s, &rows, NULL, e);
	ns[1] = clock_ns();
	ps[1] = session_phone_ps(s);
	if (!ret)
		ret = session_logits(s, 0, n, logits, e);
	ns[2] = clock_ns();
	ps[2] = session_phone_ps(s);
	for (uint32_t i = 0; i < p->sequences && !ret; i++) {
		uint32_t first = i * p->rows;

		ret = session_accept(s, i, &first, 1, e);
	}
	times->pass_s += (double)(ns[1] - ns[0]) / 1e9;
	times->logits_s += (double)(ns[2] - ns[1]) / 1e9;
	times->phone_pass_s += (double)(ps[1] - ps[0]) / 1e12;
	times->phone_logits_s += (double)(ps[2] - ps[1]) / 1e12;
	return ret;
}

void tandem_price_by_cpu(struct tandem *t, bool but_prompts)
{
	session_price_by_cpu(t->decoder.session, but_prompts);
}

int tandem_read_ahead(struct tandem *t, struct err *e)
{
	return session_read_ahead(t->decoder.session, e);
}

/* ---- the same model in one process --------------------------------------- */

int lone_model_open(
	struct tandem *t, uint32_t context, uint32_t threads, struct err *e)
{
	struct model *m = t->decoder.model;
	int ret = model_keep_embedding(m, e);

	return ret ? ret
		   : draft_open(&t->lone_model, m, NULL, DRAFT_INT8, context,
			     threads, e);
}

int lone_model_read(struct tandem *t, uint32_t length, const int32_t *token,
	size_t n, struct err *e)
{
	const float *logits;

	draft_truncate(t->lone_model, length);
	return draft_append(t->lone_model, token, n, &logits, e);
}

/* ---- the device process without a model ---------------------------------- */

#define LINK_END_MS 1000

struct device_link {
	struct launch child;
	struct channel *channel;
};

int device_link_open(
	struct device_link **out, const struct wire_hello *hello, struct err *e)
{
	const struct launch_opts found = { 0 };
	struct device_link *l = calloc(1, sizeof(*l));
	struct wire_welcome welcome;
	int fd, ret;

	if (!l)
		return err_set(e, ENOMEM, "no memory for a device");
	ret = launch_start(&l->child, &found, &fd, e);
	if (!ret)
		ret = channel_connect(&l->channel, fd, hello, &welcome, e);
	if (ret) {
		l->channel = NULL;
		device_link_close(l);
		return ret;
	}
	channel_watch_pid(l->channel, l->child.pid);
	*out = l;
	return 0;
}

struct channel *device_link_channel(const struct device_link *l)
{
	return l->channel;
}

void device_link_close(struct device_link *l)
{
	if (!l)
		return;
	if (l->channel) {
		channel_bye(l->channel);
		channel_close(l->channel);
	}
	launch_end(&l->child, LINK_END_MS);
	free(l);
}

/* ---- requests that are measured ------------------------------------------ */

void tandem_drop_needless(struct opt_values *v)
{
	const struct decoding_options *o = opt_values_of(v, &decoding_table);
	const struct method *m = method_find(o->method);

	if (m)
		decoder_drop_needless(v, m);
}

int tandem_measure(struct tandem *t, const struct tandem_request *request,
	const struct measured_text *m, struct err *e)
{
	struct decoder *d = &t->decoder;
	struct tandem_submitted *x;
	int ret;

	request_close(t->last);
	t->last = NULL;
	if (request_open(&t->last, t, request, false))
		return tandem_failure(t, e);
	x = t->last;
	if (m->known && decoder_drafts(d) && drafting_needs_text(&d->drafting))
		ret = drafting_open_with_text(
			&d->drafting, m->known, m->n_known, e);
	else
		ret = decoder_prepare_oracle(d, x->generation, e);
	x->measured = true;
	if (!ret && !m->in_a_row)
		ret = session_rest(d->session, e);
	if (!ret)
		ret = m->ready(m->arg, e);
	if (ret)
		return ret;
	return request_run(x) ? tandem_failure(t, e) : 0;
}

const char *tandem_exit_path(const struct tandem *t)
{
	const struct decoder *d = &t->decoder;

	return d->method == &method_lever && lever_state(&d->env)->exit
		? lever_state(&d->env)->exit_path
		: NULL;
}

struct lever_lessons {
	struct pass_cost cost;
	struct gain_rule lever;
};

struct lever_lessons *tandem_lessons(const struct tandem *t)
{
	const struct lever_state *st = lever_state(&t->decoder.env);
	struct lever_lessons *l = malloc(sizeof(*l));

	if (l)
		*l = (struct lever_lessons){ st->cost, st->lever };
	return l;
}

void tandem_freeze(struct tandem *t, const struct lever_lessons *l)
{
	struct lever_state *st = lever_state(&t->decoder.env);

	st->cost = l->cost;
	st->lever = l->lever;
	st->frozen = true;
}

/* ---- counters and scores ------------------------------------------------- */

void tandem_hash_anew(struct tandem *t)
{
	session_hash_anew(t->decoder.session);
}

int tandem_check_finite(const struct tandem *t, struct err *e)
{
	return session_check_finite(t->decoder.session, e);
}

void tandem_want_reward(struct tandem *t, const char *name)
{
	t->decoder.wants_reward = true;
	t->decoder.reward_name = name;
}

int tandem_score(
	struct tandem *t, struct reward_text *text, unsigned n, struct err *e)
{
	return reward_score(t->decoder.reward, text, n, e);
}

void tandem_report_reward(struct tandem *t, reward_function *fn, void *arg)
{
	if (t->decoder.reward)
		reward_report(t->decoder.reward, fn, arg);
}
