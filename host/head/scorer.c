#include "host/head/scorer.h"

#include "base/err.h"
#include "host/model/model.h"
#include "host/session/session.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* a pass over many texts has room for at least this many rows */
#define ROWS 128
/* Number of cache slots planned for each text after its shared prefix; a longer
 * text may use more. */
#define TAIL 128

/* A text of which all tokens, or only the first tokens, are in the KV cache. */
struct held {
	bool open;
	uint32_t sequence;
	int32_t *token; /* [end] tokens of the text */
	uint32_t end;
	/* number of computed tokens; equal to `end` when the text is
	 * complete */
	uint32_t n;
	/* index of the first token for which the reader has written a note
	 * (result) */
	uint32_t from;
	float *note; /* [end - from][reader.note] */
	/* [n_embd] data that the reader has stored for the last token; NULL if
	 * the reader has no finish() */
	float *tail;
	/* the value of scorer.now when the text was last used; in the order of
	 * the texts for the texts of the current group */
	uint64_t used;
	/* whether the text is in the current group (see `work` below) */
	bool busy;
	/* whether some tokens of the text are not computed yet */
	bool unread;
	/* input states of the text, as in struct scorer_text; valid only while
	 * the text is computed */
	const float *prompt_state, *state;
};

struct scorer {
	struct session *session;
	const struct model *model;
	struct scorer_reader reader;
	struct held *held; /* [most] */
	/* most: maximum number of cached texts; texts: maximum number of texts
	 * in a group */
	uint32_t most, texts;
	uint64_t now;
	/* Indices in `held` of the texts of the current group, in the caller's
	 * order of the texts. The texts of a group are computed together. */
	uint32_t work[SCORER_TEXTS], n_work;
	/* Buffers of a pass. */
	struct row *row;        /* [max_rows] */
	const float **state;    /* [max_rows] input states */
	struct scorer_row *see; /* [max_rows] */
	uint32_t max_rows;
};

/* ---- opening ------------------------------------------------------------- */

int scorer_open(struct scorer **out, const struct model *model,
	struct session *beside, const struct session_opts *opts,
	const struct scorer_limits *limits, const struct scorer_reader *reader,
	struct err *e)
{
	uint32_t context = limits->context, texts = limits->texts;
	struct scorer *s = calloc(1, sizeof(*s));
	struct session_opts o;
	int ret;
	uint64_t token, want, most, least;

	if (!s)
		return err_set(e, ENOMEM, "no memory for a scoring model");
	texts = texts > SCORER_TEXTS ? SCORER_TEXTS : texts ? texts : 1;
	context = context < model->n_ctx ? context : model->n_ctx;

	/* Take the options of the target's session, then reset the options that
	 * make sense for the target only. */
	o = *opts;
	o.beside = beside;
	o.dram_share = 1;
	o.dram_bytes = 0;
	o.exit_layers = o.tap_layers = 0;
	o.graph_switch = SWITCH_OFF;
	o.one_graph = false;
	o.larger_graphs = false;
	o.smaller_graphs = true;
	o.prefill_chunk = o.decode_rows = ROWS;
	o.context = 0;
	o.context_need = context;
	/* With a single weight buffer, more of the device's address window is
	 * left for the other models. */
	o.weight_buffers = 1;
	o.sequences = 2 * texts + 2;
	o.as = limits->as;
	o.layout = limits->layout;

	/* Number of cache slots: as many as two texts of the maximum length
	 * (`context`) need, plus TAIL slots per sequence, but at most a quarter
	 * of the address window. In any case there are slots for one text of
	 * the maximum length, plus TAIL. */
	token = 2ull * model->n_layer * model->n_kv_head * model->head_dim *
		sizeof(float);
	want = 2ull * context + (uint64_t)o.sequences * TAIL;
	most = o.va_window / 4 / token;
	least = (uint64_t)context + TAIL;
	want = want < most ? want : most;
	o.slots = (uint32_t)(want > least ? want : least);

	s->model = model;
	s->reader = *reader;
	s->texts = texts;
	/* Subtract 1, because the session's initial sequence is not used. */
	s->most = o.sequences - 1;
	ret = session_open(&s->session, model, &o, e);
	if (!ret) {
		s->max_rows = session_max_rows(s->session);
		s->held = calloc(s->most, sizeof(*s->held));
		s->row = calloc(s->max_rows, sizeof(*s->row));
		s->state = calloc(s->max_rows, sizeof(*s->state));
		s->see = calloc(s->max_rows, sizeof(*s->see));
		if (!s->held || !s->row || !s->state || !s->see)
			ret = err_set(e, ENOMEM,
				"no memory for %u texts to score", s->most);
	}
	if (ret) {
		scorer_close(s);
		return ret;
	}
	*out = s;
	return 0;
}

static void forget(struct scorer *s, struct held *h)
{
	session_remove(s->session, h->sequence);
	free(h->token);
	free(h->note);
	free(h->tail);
	*h = (struct held){ .open = false };
}

void scorer_close(struct scorer *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; s->held && i < s->most; i++)
		if (s->held[i].open)
			forget(s, &s->held[i]);
	session_close(s->session, NULL);
	free(s->held);
	free(s->row);
	free(s->state);
	free(s->see);
	free(s);
}

struct session *scorer_session(const struct scorer *s)
{
	return s->session;
}

void scorer_norm(const struct model *m, const float *hidden, float *out)
{
	const float *norm = m->output_norm->data;
	double sum = 0, factor;

	for (uint32_t i = 0; i < m->n_embd; i++)
		sum += (double)hidden[i] * hidden[i];
	factor = 1 / sqrt(sum / m->n_embd + (double)m->norm_eps);
	for (uint32_t i = 0; i < m->n_embd; i++)
		out[i] = (float)(hidden[i] * factor * norm[i]);
}

/* ---- cached texts -------------------------------------------------------- */

static float *note_at(const struct scorer *s, const struct held *h, uint32_t at)
{
	return h->note + (size_t)(at - h->from) * s->reader.note;
}

/* Return the least recently used text that is neither in the current group nor
 * `but`, or NULL if there is no such text. */
static struct held *oldest(struct scorer *s, const struct held *but)
{
	struct held *old = NULL;

	for (uint32_t i = 0; i < s->most; i++) {
		struct held *h = &s->held[i];

		if (h->open && !h->busy && h != but &&
			(!old || h->used < old->used))
			old = h;
	}
	return old;
}

/* Returns an entry that holds no text. If all entries hold texts, drops the
 * least recently used text that is neither in the current group nor `but`.
 * Returns NULL if there is no such text. */
static struct held *vacant(struct scorer *s, struct held *but)
{
	struct held *h;

	for (uint32_t i = 0; i < s->most; i++)
		if (!s->held[i].open)
			return &s->held[i];
	if (but && !but->busy)
		but->used = ++s->now;
	h = oldest(s, but);
	if (h)
		forget(s, h);
	return h;
}

/*
 * Number of tokens at the beginning of the text for which the results of the
 * cached text `h` can be used. If the two texts differ before the end of both,
 * the note (result) at the last common token was computed for another next
 * token, so the last common token is not counted.
 */
static uint32_t usable(const struct scorer *s, const struct held *h,
	const struct scorer_text *t)
{
	uint32_t same = 0, most = t->n < h->n ? (uint32_t)t->n : h->n;
	uint32_t from = (uint32_t)t->n_prompt - 1;

	while (same < most && h->token[same] == t->token[same])
		same++;
	/* the cached text has no notes (results) before index h->from */
	if (h->from > from && same > from)
		same = from;
	if (s->reader.finish && same < t->n && same < h->n && same > from)
		same--;
	return same;
}

/* Returns the cached text whose results can be used for the longest prefix of
 * `t`, and the length of this prefix in *n; NULL if no cached text can be
 * used. */
static struct held *best(
	struct scorer *s, const struct scorer_text *t, uint32_t *n)
{
	struct held *found = NULL;

	*n = 0;
	for (uint32_t i = 0; i < s->most; i++) {
		struct held *h = &s->held[i];
		uint32_t same;

		if (!h->open || h->unread)
			continue;
		same = usable(s, h, t);
		if (same > *n) {
			*n = same;
			found = h;
		}
	}
	return found;
}

/* Whether a text of the current group begins with the whole text `t` and has
 * all notes (results) that `t` needs. */
static bool is_in_group(const struct scorer *s, const struct scorer_text *t)
{
	for (uint32_t i = 0; i < s->n_work; i++) {
		const struct held *h = &s->held[s->work[i]];

		if (h->end >= t->n && h->from < t->n &&
			!memcmp(h->token, t->token, t->n * sizeof(*t->token)))
			return true;
	}
	return false;
}

/* Add a text to the current group. Reuse the first n tokens of the cached text
 * `like` (NULL if n is 0). Returns 0, 1 if the cache has no room for the text,
 * or a negative errno. */
static int take(struct scorer *s, const struct scorer_text *t,
	struct held *like, uint32_t n, struct err *e)
{
	uint32_t from = (uint32_t)t->n_prompt - 1;
	bool finishes = s->reader.finish;
	struct held *h;
	int ret;

	if (s->n_work == s->texts)
		return 1;
	h = vacant(s, like);
	if (!h)
		return 1;
	ret = like ? session_fork(s->session, like->sequence, &h->sequence, e)
		   : session_add(s->session, &h->sequence, e);
	if (ret)
		return ret;
	h->open = h->busy = h->unread = true;
	h->used = ++s->now;
	session_truncate(s->session, h->sequence, n);

	h->token = malloc(t->n * sizeof(*h->token));
	h->note = malloc(
		(size_t)(t->n - from) * s->reader.note * sizeof(*h->note));
	if (finishes)
		h->tail = malloc(s->model->n_embd * sizeof(*h->tail));
	if (!h->token || !h->note || (finishes && !h->tail)) {
		forget(s, h);
		return err_set(
			e, ENOMEM, "no memory for a text of %zu tokens", t->n);
	}
	memcpy(h->token, t->token, t->n * sizeof(*h->token));
	h->end = (uint32_t)t->n;
	h->from = from;
	h->n = n;
	h->prompt_state = t->prompt_state;
	h->state = t->state;
	if (n > from)
		memcpy(h->note, note_at(s, like, from),
			(n - from) * s->reader.note * sizeof(*h->note));
	/* If the new text begins with the whole cached text, the token after
	 * the last copied note is now known: complete this note. */
	if (n > from && n == like->n && finishes)
		s->reader.finish(s->reader.arg, like->tail, t->token[n],
			note_at(s, h, n - 1));
	s->work[s->n_work++] = (uint32_t)(h - s->held);
	return 0;
}

/* ---- passes -------------------------------------------------------------- */

/* Add rows to the pass, from row `at` on, for the tokens of the text that are
 * not yet computed, as many as fit. Returns the number of added rows. */
static uint32_t add_rows(struct scorer *s, const struct held *h, uint32_t at)
{
	uint32_t n = h->end - h->n, room = s->max_rows - at;
	uint32_t n_prompt = h->from + 1;
	size_t width = s->model->n_embd;

	n = n < room ? n : room;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t token = h->n + i;

		s->state[at + i] = NULL;
		if (s->model->layers_before)
			s->state[at + i] = token < n_prompt
				? h->prompt_state + token * width
				: h->state + (token - n_prompt) * width;
		s->row[at + i] = (struct row){
			.token = h->token[token],
			.position = token,
			.sequence = h->sequence,
			.parent = i ? (int32_t)(at + i - 1) : -1,
		};
	}
	return n;
}

/* Let the reader write the notes (results) for n rows of a text, starting at
 * row `at` of the pass. */
static int note(struct scorer *s, struct held *h, uint32_t at, uint32_t n,
	struct err *e)
{
	uint32_t seen = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t token = h->n + i;

		if (token < h->from)
			continue;
		s->see[seen++] = (struct scorer_row){
			.row = at + i,
			.token = h->token[token],
			.next = token + 1 < h->end ? h->token[token + 1] : -1,
			.note = note_at(s, h, token),
		};
	}
	if (!seen)
		return 0;
	return s->reader.read(
		s->reader.arg, s->session, s->see, seen, h->tail, e);
}

/* Return the last text of the current group, or NULL if the group has only one
 * text. */
static struct held *last_of_group(struct scorer *s)
{
	struct held *last = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->most; i++) {
		struct held *h = &s->held[i];

		if (!h->open || !h->busy)
			continue;
		n++;
		if (!last || h->used > last->used)
			last = h;
	}
	return n > 1 ? last : NULL;
}

/* Free cache slots: drop a text that is not in the current group or, if all
 * texts are in the group, the last text of the group, which may be cached
 * already. Returns 0, or 1 if the group has only one text and no other text is
 * cached. */
static int make_room(struct scorer *s)
{
	struct held *h = oldest(s, NULL);

	if (!h)
		h = last_of_group(s);
	if (!h)
		return 1;
	if (h == &s->held[s->work[s->n_work - 1]])
		s->n_work--;
	forget(s, h);
	return 0;
}

/* Compute the texts of the current group. If cache slots run out, drop other
 * cached texts and then, if there are none, texts at the end of the group,
 * which are then not computed. */
static int run(struct scorer *s, struct err *e)
{
	struct rows rows = { VISIBILITY_TREE, 0, s->row,
		s->model->layers_before ? s->state : NULL };
	uint32_t share[SCORER_TEXTS], at = 0;
	int ret = 0;

	for (; !ret; at = 0) {
		rows.n = 0;
		for (uint32_t i = 0; i < s->n_work; i++) {
			share[i] = add_rows(s, &s->held[s->work[i]], rows.n);
			rows.n += share[i];
		}
		if (!rows.n)
			break;
		ret = session_forward(s->session, &rows, NULL, e);
		if (ret == -ENOSPC && !make_room(s)) {
			ret = 0;
			continue;
		}
		for (uint32_t i = 0; i < s->n_work && !ret; i++) {
			struct held *h = &s->held[s->work[i]];

			if (!share[i])
				continue;
			ret = note(s, h, at, share[i], e);
			if (!ret)
				ret = session_accept(s->session, h->sequence,
					NULL, share[i], e);
			if (!ret)
				h->n += share[i];
			h->unread = h->n < h->end;
			at += share[i];
		}
	}
	return ret;
}

/* End the current group, and drop the texts that are not computed
 * completely. */
static void end_group(struct scorer *s)
{
	for (uint32_t i = 0; i < s->most; i++) {
		struct held *h = &s->held[i];

		h->busy = false;
		if (h->open && h->unread)
			forget(s, h);
	}
	s->n_work = 0;
}

/* ---- texts --------------------------------------------------------------- */

static int check_text(
	const struct scorer *s, const struct scorer_text *t, struct err *e)
{
	uint32_t most = session_context(s->session), n_vocab;

	if (t->n > most)
		return err_set(e, EFBIG,
			"the text to score has %zu tokens, but the scoring "
			"model's context has only %u",
			t->n, most);
	if (!t->n_prompt || t->n_prompt > t->n)
		return err_set(e, EINVAL,
			"the prompt of the text to score has %zu tokens, must "
			"have 1 to %zu, as many as the whole text",
			t->n_prompt, t->n);
	n_vocab = s->model->n_vocab;
	for (size_t i = 0; i < t->n; i++)
		if (t->token[i] < 0 || (uint32_t)t->token[i] >= n_vocab)
			return err_set(e, EINVAL,
				"token %d is not in the scoring model's "
				"vocabulary of %u",
				t->token[i], n_vocab);
	return 0;
}

/* Compute the prompts of the texts from text number `first` on, unless they are
 * cached. */
static int read_prompts(struct scorer *s, const struct scorer_text *t,
	unsigned first, unsigned n, struct err *e)
{
	int ret = 0;

	for (unsigned i = first; i < n && !ret; i++) {
		struct scorer_text prompt = t[i];
		struct held *like;
		uint32_t have;

		prompt.n = prompt.n_prompt;
		like = best(s, &prompt, &have);
		if (have == prompt.n) {
			/* Mark the cached prompt as used now, so that it is not
			 * dropped before its texts are computed. */
			like->used = ++s->now;
			continue;
		}
		if (!is_in_group(s, &prompt))
			ret = take(s, &prompt, like, have, e);
	}
	if (ret >= 0)
		ret = run(s, e);
	end_group(s);
	return ret;
}

/* Add texts to the current group, from text number `first` on, as many as fit.
 * *end receives the number of the first text that does not fit. of[i] receives
 * the index in s->held of text i. */
static int take_texts(struct scorer *s, const struct scorer_text *t,
	unsigned first, unsigned n, uint32_t *of, unsigned *end, struct err *e)
{
	int ret = 0;

	for (*end = first; *end < n; ++*end) {
		const struct scorer_text *text = &t[*end];
		uint32_t have;
		struct held *like = best(s, text, &have);

		if (have + 1 < text->n_prompt && *end > first)
			/* the text's prompt is not cached, because there was no
			 * room for it */
			return 0;
		if (like && have == text->n) {
			if (!like->busy)
				like->used = ++s->now;
			like->busy = true;
			of[*end] = (uint32_t)(like - s->held);
			continue;
		}
		ret = take(s, text, like, have, e);
		if (ret)
			break;
		of[*end] = s->work[s->n_work - 1];
	}
	return ret < 0 ? ret : 0;
}

int scorer_read(struct scorer *s, const struct scorer_text *t, unsigned n,
	int (*each)(void *arg, unsigned i, const float *notes, struct err *),
	void *arg, struct err *e)
{
	uint32_t *of = calloc(n ? n : 1, sizeof(*of));
	unsigned first = 0, end = 0;
	int ret = of
		? 0
		: err_set(e, ENOMEM,
			  "no memory for the state of %u texts to score", n);

	for (unsigned i = 0; i < n && !ret; i++)
		ret = check_text(s, &t[i], e);
	/* Compute the texts in groups, each with as many texts as fit into the
	 * cache. */
	for (; first < n && !ret; first = end) {
		ret = read_prompts(s, t, first, n, e);
		if (!ret)
			ret = take_texts(s, t, first, n, of, &end, e);
		if (!ret)
			ret = run(s, e);
		for (unsigned i = first; i < end && !ret; i++) {
			const struct held *h = &s->held[of[i]];
			if (!h->open || h->unread) {
				/* The text was dropped to make room for
				 * others. */
				end = i;
				break;
			}
			ret = each(arg, i,
				note_at(s, h, (uint32_t)t[i].n_prompt - 1), e);
		}
		end_group(s);
		if (!ret && end == first)
			ret = err_set(e, ENOSPC,
				"the scoring model's cache has no room for a "
				"text; try a larger --va-window");
	}
	free(of);
	return ret;
}
