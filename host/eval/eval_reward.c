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

	for (; n && !ret; n--, t++) {
		struct detokenizer words = { .tok = x->tokenizer,
			.started = true };
		bool right;

		strbuf_reset(&text);
		for (size_t i = t->n_prompt; i < t->n && !ret; i++)
			ret = detokenize(&words, t->token[i], &text);
		detokenize_end(&words, &text);
		if (ret)
			err_set(e, -ret,
				"cannot convert the tokens of a sample to text");
		else if (text.failed)
			ret = err_set(e, ENOMEM, "no memory for the text");
		else
			ret = eval_check(x->item, text.len ? text.data : "",
				text.len, &right, e);
		for (uint32_t k = 0; k < t->n_steps && !ret; k++)
			t->score[k] = right;
	}
	strbuf_release(&text);
	return ret;
}
