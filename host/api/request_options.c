/* Handles the caller's struct tandem_request: sets its defaults, checks it, and
 * reads its prompt. */
#include "base/err.h"
#include "host/api/prompt.h"
#include "host/api/report.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/model/model.h"
#include "host/text/chat_tools.h"
#include "host/text/tokenizer.h"
#include "host/text/utf8.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct tandem_request request_defaults = {
	.size = sizeof(request_defaults),
	.max_tokens = 256,
	.temperature = NAN,
	.top_p = 1,
	.repeat_penalty = 1,
	.repeat_last = 64,
	.seed = 1,
};

void tandem_request_init(struct tandem_request *r, size_t size)
{
	memset(r, 0, size);
	memcpy(r, &request_defaults,
		size < sizeof(*r) ? size : sizeof(request_defaults));
	memcpy(r, &size, sizeof(size));
}

/* ---- checks -------------------------------------------------------------- */

static int check_sampling(const struct tandem_request *r, struct err *e)
{
	const struct {
		const char *name;
		double value, least, most;
	} in[] = {
		{ "temperature", isnan(r->temperature) ? 0 : r->temperature, 0,
			1000 },
		{ "top_p", r->top_p, 0, 1 },
		{ "min_p", r->min_p, 0, 1 },
		{ "repeat_penalty", r->repeat_penalty, 0.01, 100 },
		{ "presence_penalty", r->presence_penalty, -2, 2 },
		{ "frequency_penalty", r->frequency_penalty, -2, 2 },
	};

	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
		if (!(in[i].value >= in[i].least && in[i].value <= in[i].most))
			return err_set(e, EINVAL, "%s is %g, must be %g to %g",
				in[i].name, in[i].value, in[i].least,
				in[i].most);
	if (r->n_bias > TANDEM_BIASES)
		return err_set(e, EINVAL, "n_bias is %zu, must be 0 to %d",
			r->n_bias, TANDEM_BIASES);
	return r->top_p > 0
		? 0
		: err_set(e, EINVAL, "top_p is 0, must be more than 0");
}

int request_take(struct tandem_request *q, const struct tandem_request *theirs,
	struct err *e)
{
	int ret;

	*q = request_defaults;
	if (!theirs)
		return err_set(e, EINVAL, "the request is NULL");
	ret = tandem_adopt(q, sizeof(*q), theirs, "tandem_request", e);
	if (ret)
		return ret;
	if (!q->turns && !q->prompt && !q->tokens)
		return err_set(e, EINVAL,
			"the request has no prompt: set prompt, tokens or "
			"turns");
	if (q->turns && !(q->flags & TANDEM_CHAT))
		return err_set(e, EINVAL,
			"the request has turns, so its flags must have "
			"TANDEM_CHAT");
	if (q->turns && (q->prompt || q->tokens || q->system))
		return err_set(e, EINVAL,
			"the request has turns and also prompt, tokens or "
			"system; leave these NULL, because turns replace them");
	if (q->max_tokens < -1)
		return err_set(e, EINVAL,
			"max_tokens is %lld, must be 0 or more, or -1 (no "
			"limit)",
			(long long)q->max_tokens);
	if (q->logprobs > LIKELY_TOP)
		return err_set(e, EINVAL, "logprobs is %u, must be 0 to %d",
			q->logprobs, LIKELY_TOP);
	if (q->json_schema && q->flags & TANDEM_IGNORE_EOS)
		return err_set(e, EINVAL,
			"json_schema cannot be used with TANDEM_IGNORE_EOS, "
			"because generation always stops when the JSON text is "
			"complete");
	if (q->tools && (q->json_schema || q->flags & TANDEM_IGNORE_EOS))
		return err_set(e, EINVAL, "tools cannot be used with %s",
			q->json_schema ? "json_schema" : "TANDEM_IGNORE_EOS");
	for (size_t i = 0; q->stop && q->stop[i]; i++)
		if (!utf8_is_valid(q->stop[i], strlen(q->stop[i])))
			return err_set(e, EINVAL,
				"the stop string '%s' is not valid UTF-8",
				q->stop[i]);
	return check_sampling(q, e);
}

int request_tools(const struct tandem *t, const struct tandem_request *q,
	struct chat_tools **out, struct err *e)
{
	const struct chat_tools_opts o = { .json = q->tools,
		.only = q->tool,
		.must = q->flags & TANDEM_MUST_CALL,
		.one = q->flags & TANDEM_ONE_CALL };

	*out = NULL;
	return q->tools ? chat_tools_open(out,
				  call_style_of(t->decoder.model->gguf), &o, e)
			: 0;
}

int request_prompt(const struct tandem *t, const struct tandem_request *q,
	const struct chat_tools *tools, struct token_list *out, struct err *e)
{
	struct prompt p = {
		.text = q->prompt,
		.len = q->prompt_bytes,
		.system = q->system,
		.chat = q->flags & TANDEM_CHAT,
		.special = q->flags & TANDEM_SPECIAL,
		.no_bos = q->flags & TANDEM_NO_BOS,
		.eos = q->flags & TANDEM_EMBED,
		.turns = q->turns,
		.n_turns = q->n_turns,
		.tools = tools,
	};

	if (!p.len && p.text)
		p.len = strlen(p.text);
	if (!q->tokens)
		return prompt_read(&t->decoder, &p, out, e);
	for (size_t i = 0; i < q->n_tokens; i++)
		if (token_list_add(out, q->tokens[i]))
			return err_set(e, ENOMEM, "no memory for %zu tokens",
				q->n_tokens);
	return 0;
}

int tandem_prompt_tokens(const struct tandem *t,
	const struct tandem_request *theirs, int32_t **ids, size_t *n,
	struct err *e)
{
	struct token_list list = { 0 };
	struct chat_tools *tools = NULL;
	struct tandem_request q;
	int ret = request_take(&q, theirs, e);

	if (!ret)
		ret = request_tools(t, &q, &tools, e);
	if (!ret)
		ret = request_prompt(t, &q, tools, &list, e);
	chat_tools_close(tools);
	if (ret) {
		free(list.id);
		list = (struct token_list){ 0 };
	}
	*ids = list.id;
	*n = list.n;
	return ret;
}
