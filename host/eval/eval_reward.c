#include "host/eval/eval_reward.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/tandem_pass.h"
#include "host/eval/eval_check.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <stdbool.h>

static int write_text(const struct eval_exact *x, const struct reward_text *t,
	struct strbuf *out, struct err *e)
{
	struct detokenizer words = { .tok = x->tokenizer, .started = true };
	int ret = 0;

	for (size_t i = t->n_prompt; i < t->n && !ret; i++)
		ret = detokenize(&words, t->token[i], out);
	if (ret)
		return err_set(e, -ret, "a text to be marked has no words");
	detokenize_end(&words, out);
	return out->failed ? err_set(e, ENOMEM, "no memory for the text") : 0;
}

int eval_exact_score(
	void *arg, struct reward_text *t, unsigned n, struct err *e)
{
	const struct eval_exact *x = arg;
	struct strbuf text = STRBUF_INIT;
	int ret = 0;

	for (unsigned i = 0; i < n && !ret; i++) {
		bool right;

		strbuf_reset(&text);
		ret = write_text(x, &t[i], &text, e);
		right = !ret &&
			eval_right(
				x->item, text.len ? text.data : "", text.len);
		for (uint32_t k = 0; k < t[i].n_steps; k++)
			t[i].score[k] = right;
	}
	strbuf_release(&text);
	return ret;
}
