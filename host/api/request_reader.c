/*
 * The callbacks of a request's generation (struct generation, which holds the
 * tokens of the text and draws new tokens). These callbacks convert the data
 * that they receive, and call the callbacks that the library's caller has set
 * in the request.
 */
#include "host/api/embedding.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/model/model.h"
#include "host/text/generation.h"
#include "host/text/likely.h"
#include "host/text/tokenizer.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Compute the value that a callback returns to the generation; a value other
 * than 0 stops the generation. `stopped`: the caller's callback has asked to
 * stop. */
static int ends(struct tandem_submitted *x, bool stopped)
{
	x->stopped |= stopped;
	return x->stopped || x->canceled;
}

static int to_sink(
	struct tandem_submitted *x, int32_t id, const char *bytes, size_t len)
{
	const struct tandem_request *q = &x->request;

	return ends(x, q->sink && q->sink(q->sink_arg, id, bytes, len));
}

/* Callback of x->reader, which separates tool calls from other text: delivers a
 * piece of a tool call. */
static int to_call(void *arg, unsigned index, const char *name,
	const char *piece, size_t len, bool ended)
{
	struct tandem_submitted *x = arg;
	const struct tandem_request *q = &x->request;
	const struct tandem_call call = { .size = sizeof(call),
		.index = index,
		.name = name,
		.arguments = piece,
		.bytes = len,
		.ended = ended };

	return ends(x, q->call && q->call(q->call_arg, &call));
}

int request_deliver(void *arg, int32_t id, const char *bytes, size_t len)
{
	struct tandem_submitted *x = arg;
	int ret;

	if (!x->tools)
		return to_sink(x, id, bytes, len);
	x->reader.call = to_call;
	x->reader.arg = x;
	strbuf_reset(&x->prose);
	ret = call_reader_add(&x->reader, id, bytes, len, &x->prose);
	if (!ret && x->prose.failed)
		ret = -ENOMEM;
	return ret ? ret
		   : to_sink(x, id, x->prose.len ? x->prose.data : "",
			     x->prose.len);
}

void request_deliver_rest(struct tandem_submitted *x)
{
	strbuf_reset(&x->prose);
	if (x->tools)
		call_reader_end(&x->reader, &x->prose);
	if (x->prose.len)
		to_sink(x, -1, x->prose.data, x->prose.len);
}

/* ---- denoising steps ----------------------------------------------------- */

static int make_room(struct tandem_submitted *x, uint32_t n)
{
	if (n <= x->room && x->at)
		return 0;
	free(x->tokens);
	free(x->at);
	x->room = 0;
	x->tokens = malloc(((size_t)n + 1) * sizeof(*x->tokens));
	x->at = malloc(((size_t)n + 1) * sizeof(*x->at));
	if (!x->tokens || !x->at)
		return -ENOMEM;
	x->room = n;
	return 0;
}

_Static_assert((int)TANDEM_MASK == (int)GEN_MASK &&
		(int)TANDEM_VISIBLE == (int)GEN_VISIBLE &&
		(int)TANDEM_STABLE == (int)GEN_STABLE &&
		(int)TANDEM_DRAFT == (int)GEN_DRAFT,
	"marks are copied without a conversion");

int request_report_step(void *arg, const struct gen_step *s)
{
	struct tandem_submitted *x = arg;
	struct tandem_step step = {
		.size = sizeof(step),
		.pass = s->pass,
		.first = s->first,
		.n = s->n,
		.marks = s->mark,
	};
	int ret = make_room(x, s->n);

	strbuf_reset(&x->scratch);
	if (!ret)
		ret = gen_step_text(x->generation, s, &x->scratch, x->at);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < s->n; i++)
		x->tokens[i] = s->mark[i] == GEN_MASK ? -1 : s->token[i];
	step.tokens = x->tokens;
	step.at = x->at;
	step.text = x->scratch.data ? x->scratch.data : "";
	return ends(x, x->request.step(x->request.step_arg, &step));
}

/* ---- tokens and drafts --------------------------------------------------- */

/* Append the text of a single token. */
static int add_piece(
	const struct tandem_submitted *x, int32_t id, struct strbuf *out)
{
	struct detokenizer d = { .tok = x->tandem->decoder.tokenizer,
		.special = x->request.flags & TANDEM_SPECIAL,
		.started = true };
	int ret = detokenize(&d, id, out);

	detokenize_end(&d, out);
	return out->failed ? -ENOMEM : ret;
}

int request_report_draft(void *arg, const struct gen_draft *d)
{
	struct tandem_submitted *x = arg;
	unsigned char accepted[WIRE_MAX_ROWS] = { 0 };
	struct tandem_draft draft = { .size = sizeof(draft),
		.pass = d->pass,
		.n = d->n,
		.tokens = d->token,
		.parents = d->parent,
		.accepted = accepted,
		.next = d->next };
	int ret = make_room(x, d->n + 1);

	assert(d->n <= WIRE_MAX_ROWS);
	for (uint32_t i = 0; i < d->n_path; i++)
		accepted[d->path[i]] = 1;
	strbuf_reset(&x->scratch);
	for (uint32_t i = 0; i <= d->n && !ret; i++) {
		x->at[i] = x->scratch.len;
		ret = add_piece(
			x, i < d->n ? d->token[i] : d->next, &x->scratch);
	}
	if (ret)
		return ret;
	x->at[d->n + 1] = x->scratch.len;
	draft.at = x->at;
	draft.text = x->scratch.data ? x->scratch.data : "";
	return ends(x, x->request.draft(x->request.draft_arg, &draft));
}

int request_report_token(void *arg, const struct gen_token *t)
{
	struct tandem_submitted *x = arg;
	const struct tandem_request *q = &x->request;
	struct tandem_token token = { .size = sizeof(token),
		.id = t->id,
		.text = t->text,
		.bytes = t->len,
		.logprob = NAN,
		.top = x->top };
	struct likely likely[LIKELY_TOP];
	size_t at = 0;

	if (t->logits)
		token.n_top =
			likely_of(t->logits, x->tandem->decoder.model->n_vocab,
				t->id, q->logprobs, likely, &token.logprob);
	/* Fill x->top. The texts of the candidates are appended to x->scratch.
	 * The bytes of x->scratch may move while it grows, so the pointers to
	 * the texts are set at the end. */
	strbuf_reset(&x->scratch);
	for (unsigned i = 0; i < token.n_top; i++) {
		size_t from = x->scratch.len;
		int ret = add_piece(x, likely[i].id, &x->scratch);

		/* an id that is not in the vocabulary has no text */
		if (ret && ret != -EINVAL)
			return ret;
		x->top[i] = (struct tandem_likely){ .id = likely[i].id,
			.logprob = likely[i].logprob,
			.bytes = x->scratch.len - from };
	}
	for (unsigned i = 0; i < token.n_top; at += x->top[i++].bytes)
		x->top[i].text = x->scratch.len ? x->scratch.data + at : "";
	return ends(x, q->token(q->token_arg, &token));
}

/* ---- embeddings ---------------------------------------------------------- */

int request_report_embedding(struct tandem_submitted *x, struct err *e)
{
	const struct tandem_request *q = &x->request;
	const float *values;
	size_t n;
	int ret = embedding_values(x->embedding, &values, &n, e);

	if (!ret && q->embedding)
		q->embedding(q->embedding_arg, values, n);
	return ret;
}
