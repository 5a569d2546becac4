#include "host/api/tandem_pass.h"

#include "host/api/tandem_impl.h"
#include "host/head/reward.h"
#include "host/model/model.h"
#include "host/session/logits.h"

#include <errno.h>
#include <stdlib.h>

int tandem_read_weights(struct tandem *t, const char *path)
{
	struct decoder *d = &t->decoder;
	int ret = decoder_find_model(d, path, &t->err);

	if (!ret)
		ret = model_open(&d->model, d->model_path, &t->err);
	return tandem_status_of(ret);
}

struct session *tandem_session(const struct tandem *t)
{
	return t->decoder.session;
}

/* Rows [row, n) of the last pass, whose first token is the at-th. */
static int read_rows(struct session *s, size_t at, uint32_t row, uint32_t n,
	const struct pass_reader *to, float *logits, struct err *e)
{
	uint32_t some;
	int ret = 0;

	for (; row < n && !ret; row += some) {
		some = n - row < LOGITS_ROWS ? n - row : LOGITS_ROWS;
		ret = session_logits_range(s, row, some, logits, e);
		if (!ret)
			ret = session_check_finite(s, e);
		if (!ret)
			ret = to->logits(to->arg, at + row, some, logits, e);
	}
	return ret;
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
		if (row < some)
			ret = read_rows(
				s, at, (uint32_t)row, some, to, logits, e);
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
	t->decoder.reward_said = name;
}

int tandem_score(
	struct tandem *t, struct reward_text *text, unsigned n, struct err *e)
{
	return reward_score(t->decoder.reward, text, n, e);
}

void tandem_tell_reward(struct tandem *t, reward_function *fn, void *arg)
{
	if (t->decoder.reward)
		reward_tell(t->decoder.reward, fn, arg);
}
