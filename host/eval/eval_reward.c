#include "host/eval/eval_reward.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/tandem_pass.h"
#include "host/eval/eval_check.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <stdbool.h>

int eval_exact_score(
	void *arg, struct reward_text *t, unsigned n, struct err *e)
{
	const struct eval_exact *x = arg;
	struct strbuf text = STRBUF_INIT;
	int ret = 0;

	for (; n; n--, t++) {
		struct detokenizer words = { .tok = x->tokenizer,
			.started = true };
		bool right;

		strbuf_reset(&text);
		for (size_t i = t->n_prompt; i < t->n && !ret; i++)
			ret = detokenize(&words, t->token[i], &text);
		if (ret) {
			err_set(e, -ret,
				"cannot convert the tokens of a sample to text");
			break;
		}
		detokenize_end(&words, &text);
		if (text.failed) {
			ret = err_set(e, ENOMEM, "no memory for the text");
			break;
		}
		ret = eval_check(x->item, text.len ? text.data : "", text.len,
			&right, e);
		if (ret)
			break;
		for (uint32_t k = 0; k < t->n_steps; k++)
			t->score[k] = right;
	}
	strbuf_release(&text);
	return ret;
}
