#include "host/api/prompt.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/decoder.h"
#include "host/model/model.h"
#include "host/text/chat.h"
#include "host/text/tokenizer.h"

#include <errno.h>

/* The prompt in the chat template; then part[] says what of it is not the
 * template's. */
static int format_chat(const struct decoder *d, const struct prompt *p,
	struct strbuf *out, struct text_span part[CHAT_PARTS], struct err *e)
{
	int ret = chat_format(chat_of(d->model->gguf), p->system, p->text,
		p->len, out, part, e);

	if (!ret && out->failed)
		ret = err_set(e, ENOMEM, "no memory for the prompt");
	return ret;
}

int prompt_read(const struct decoder *d, const struct prompt *p,
	struct token_list *out, struct err *e)
{
	struct strbuf turns = STRBUF_INIT;
	struct text_span part[CHAT_PARTS] = { 0 };
	unsigned flags = p->special || p->chat ? TOKENIZE_SPECIAL : 0;
	int ret = p->chat ? format_chat(d, p, &turns, part, e) : 0;

	if (!ret)
		ret = tokenize_quoting(d->tokenizer,
			p->chat ? turns.data : p->text,
			p->chat ? turns.len : p->len, flags, part,
			p->special ? 0 : CHAT_PARTS, out, e);
	strbuf_release(&turns);
	return ret || p->no_bos ? ret : decoder_add_bos(d, out, e);
}

int prompt_check_room(const struct decoder *d, size_t n, uint64_t n_predict,
	uint32_t context, struct err *e)
{
	if (n < context || (n == context && !n_predict))
		return 0;
	return model_no_room(d->model, "the prompt", n,
		n + (n_predict ? 1u : 0u), context, e);
}
