#include "host/head/scorer.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/model/model.h"
#include "host/session/session.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a pass, of many texts, and of the smallest. */
#define ROWS 128
/* Slots for what texts have behind what they share, of each; more where one
 * text alone wants more. */
#define TAIL 128

/* A text that was read, or is about to be. */
struct held {
	bool open;
	uint32_t sequence;
	int32_t *token; /* [end] */
	uint32_t end;
	uint32_t n;    /* computed, the first ones; `end` once it is read */
	uint32_t from; /* the first token with a note */
	float *note;   /* [end - from][reader.note] */
	float *tail;   /* [n_vocab] logits behind the last; NULL: not kept */
	uint64_t used; /* when, by judge.now */
	bool busy;     /* in the group that is read */
	bool unread;   /* not all of it is computed */
	/* The caller's, as in scorer_text, while it is read. */
	const float *prompt_state, *state;
};

struct scorer {
	struct session *session;
	const struct model *model;
	struct scorer_reader reader;
	struct held *held;    /* [most] */
	uint32_t most, texts; /* of a group, at most */
	uint64_t now;
	/* Of a group: its texts, in the order in which they came. */
	uint32_t work[SCORER_TEXTS], n_work;
	/* Of a pass. */
	struct row *row;        /* [max_rows] */
	const float **state;    /* [max_rows] that they begin with */
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
	struct scorer *j = calloc(1, sizeof(*j));
	struct session_opts o;
	int ret;
	uint64_t token, want, most, least;

	if (!j)
		return err_set(e, ENOMEM, "no memory for a judge");
	texts = texts > SCORER_TEXTS ? SCORER_TEXTS : texts ? texts : 1;
	context = context < model->n_ctx ? context : model->n_ctx;

	/* The target's options, but for those that fit one model alone. */
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
	o.weight_buffers = 1; /* the others need the window too */
	o.sequences = 2 * texts + 2;
	o.as = limits->as;
	o.layout = limits->layout;

	/* Slots for two contexts and a tail for each sequence, as far as a
	 * quarter of the window holds them; at least a context and a tail. */
	token = 2ull * model->n_layer * model->n_kv_head * model->head_dim *
		sizeof(float);
	want = 2ull * context + (uint64_t)o.sequences * TAIL;
	most = o.va_window / 4 / token;
	least = (uint64_t)context + TAIL;
	want = want < most ? want : most;
	o.slots = (uint32_t)(want > least ? want : least);

	j->model = model;
	j->reader = *reader;
	j->texts = texts;
	/* The sequence that a session opens with is not used. */
	j->most = o.sequences - 1;
	ret = session_open(&j->session, model, &o, e);
	if (!ret) {
		j->max_rows = session_max_rows(j->session);
		j->held = calloc(j->most, sizeof(*j->held));
		j->row = calloc(j->max_rows, sizeof(*j->row));
		j->state = calloc(j->max_rows, sizeof(*j->state));
		j->see = calloc(j->max_rows, sizeof(*j->see));
		if (!j->held || !j->row || !j->state || !j->see)
			ret = err_set(e, ENOMEM,
				"no memory for %u texts to judge", j->most);
	}
	if (ret) {
		scorer_close(j);
		return ret;
	}
	*out = j;
	return 0;
}

static void forget(struct scorer *j, struct held *h)
{
	session_remove(j->session, h->sequence);
	free(h->token);
	free(h->note);
	free(h->tail);
	*h = (struct held){ .open = false };
}

void scorer_close(struct scorer *j)
{
	if (!j)
		return;
	for (uint32_t i = 0; j->held && i < j->most; i++)
		if (j->held[i].open)
			forget(j, &j->held[i]);
	session_close(j->session, NULL);
	free(j->held);
	free(j->row);
	free(j->state);
	free(j->see);
	free(j);
}

struct session *scorer_session(const struct scorer *j)
{
	return j->session;
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

/* ---- what is held -------------------------------------------------------- */

static float *note_at(const struct scorer *j, const struct held *h, uint32_t at)
{
	return h->note + (size_t)(at - h->from) * j->reader.note;
}

/* What was used longest ago and nobody reads; NULL: nothing. */
static struct held *oldest(struct scorer *j)
{
	struct held *old = NULL;

	for (uint32_t i = 0; i < j->most; i++) {
		struct held *h = &j->held[i];

		if (h->open && !h->busy && (!old || h->used < old->used))
			old = h;
	}
	return old;
}

/* A place, which may have been anyone's but that one's. */
static struct held *vacant(struct scorer *j, struct held *but)
{
	bool busy = but && but->busy;
	struct held *h;

	for (uint32_t i = 0; i < j->most; i++)
		if (!j->held[i].open)
			return &j->held[i];
	if (but) {
		but->busy = true;
		but->used = ++j->now;
	}
	h = oldest(j);
	if (but)
		but->busy = busy;
	if (h)
		forget(j, h);
	return h;
}

/*
 * Tokens of a text that one which is held has computed as it wants them. Where
 * the two part in the middle of that one, its last note that they share is of
 * another next token.
 */
static uint32_t usable(const struct scorer *j, const struct held *h,
	const struct scorer_text *t)
{
	uint32_t same = 0, most = t->n < h->n ? (uint32_t)t->n : h->n;
	uint32_t from = (uint32_t)t->n_prompt - 1;

	while (same < most && h->token[same] == t->token[same])
		same++;
	/* Notes begin later there. */
	if (h->from > from && same > from)
		same = from;
	if (j->reader.finish && same < t->n && same < h->n && same > from)
		same--;
	return same;
}

/* The one that a text has most in common with: so many tokens, maybe none. */
static struct held *best(
	struct scorer *j, const struct scorer_text *t, uint32_t *n)
{
	struct held *found = NULL;

	*n = 0;
	for (uint32_t i = 0; i < j->most; i++) {
		struct held *h = &j->held[i];
		uint32_t same;

		if (!h->open || h->unread)
			continue;
		same = usable(j, h, t);
		if (same > *n) {
			*n = same;
			found = h;
		}
	}
	return found;
}

/* Whether one is being read that has all of it. */
static bool is_coming(const struct scorer *j, const struct scorer_text *t)
{
	for (uint32_t i = 0; i < j->n_work; i++) {
		const struct held *h = &j->held[j->work[i]];

		if (h->end >= t->n && h->from < t->n &&
			!memcmp(h->token, t->token, t->n * sizeof(*t->token)))
			return true;
	}
	return false;
}

static int fill(struct scorer *j, struct held *h, const struct scorer_text *t,
	const struct held *like, uint32_t n)
{
	uint32_t from = (uint32_t)t->n_prompt - 1;
	size_t notes = (size_t)(t->n - from) * j->reader.note;

	h->token = malloc(t->n * sizeof(*h->token));
	h->note = malloc(notes * sizeof(*h->note));
	if (j->reader.finish)
		h->tail = malloc(j->model->n_vocab * sizeof(*h->tail));
	if (!h->token || !h->note || (j->reader.finish && !h->tail))
		return -ENOMEM;
	memcpy(h->token, t->token, t->n * sizeof(*h->token));
	h->end = (uint32_t)t->n;
	h->from = from;
	h->n = n;
	h->prompt_state = t->prompt_state;
	h->state = t->state;
	if (n > from)
		memcpy(h->note, note_at(j, like, from),
			(n - from) * j->reader.note * sizeof(*h->note));
	/* The text goes on where that one ended. */
	if (n > from && n == like->n && j->reader.finish)
		j->reader.finish(j->reader.arg, like->tail, t->token[n],
			note_at(j, h, n - 1));
	return 0;
}

/* A text to read, behind n tokens of another. 0, or 1: there is no place. */
static int take(struct scorer *j, const struct scorer_text *t,
	struct held *like, uint32_t n, struct err *e)
{
	struct held *h;
	int ret;

	if (j->n_work == j->texts)
		return 1;
	h = vacant(j, like);
	if (!h)
		return 1;
	ret = like ? session_fork(j->session, like->sequence, &h->sequence, e)
		   : session_add(j->session, &h->sequence, e);
	if (ret)
		return ret;
	h->open = h->busy = h->unread = true;
	h->used = ++j->now;
	session_truncate(j->session, h->sequence, n);
	ret = fill(j, h, t, like, n);
	if (ret) {
		forget(j, h);
		return err_set(
			e, ENOMEM, "no memory for a text of %zu tokens", t->n);
	}
	j->work[j->n_work++] = (uint32_t)(h - j->held);
	return 0;
}

/* ---- passes -------------------------------------------------------------- */

/* Rows of a text into the pass, as many as it wants and there is room for. */
static uint32_t add_rows(struct scorer *j, const struct held *h, uint32_t at)
{
	uint32_t n = h->end - h->n, room = j->max_rows - at;
	uint32_t n_prompt = h->from + 1;
	size_t width = j->model->n_embd;

	n = n < room ? n : room;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t token = h->n + i;

		j->state[at + i] = NULL;
		if (j->model->behind)
			j->state[at + i] = token < n_prompt
				? h->prompt_state + token * width
				: h->state + (token - n_prompt) * width;
		j->row[at + i] = (struct row){
			.token = h->token[token],
			.position = token,
			.sequence = h->sequence,
			.parent = i ? (int32_t)(at + i - 1) : -1,
		};
	}
	return n;
}

/* The notes of the n rows of a text that begin with row `at` of the pass. */
static int note(struct scorer *j, struct held *h, uint32_t at, uint32_t n,
	struct err *e)
{
	uint32_t seen = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t token = h->n + i;

		if (token < h->from)
			continue;
		j->see[seen++] = (struct scorer_row){
			.row = at + i,
			.token = h->token[token],
			.next = token + 1 < h->end ? h->token[token + 1] : -1,
			.note = note_at(j, h, token),
		};
	}
	if (!seen)
		return 0;
	return j->reader.read(
		j->reader.arg, j->session, j->see, seen, h->tail, e);
}

/* Room in the cache: of what is not read, or of what is read last. 0, or 1:
 * there is nothing more to give. */
static int make_room(struct scorer *j)
{
	struct held *h = oldest(j);

	if (h) {
		forget(j, h);
		return 0;
	}
	if (j->n_work < 2)
		return 1;
	forget(j, &j->held[j->work[--j->n_work]]);
	return 0;
}

/* Read the group, except for texts that there is no room for. */
static int run(struct scorer *j, struct err *e)
{
	struct rows rows = { VISIBILITY_TREE, 0, j->row,
		j->model->behind ? j->state : NULL };
	uint32_t share[SCORER_TEXTS], at = 0;
	int ret = 0;

	for (; !ret; at = 0) {
		rows.n = 0;
		for (uint32_t i = 0; i < j->n_work; i++) {
			share[i] = add_rows(j, &j->held[j->work[i]], rows.n);
			rows.n += share[i];
		}
		if (!rows.n)
			break;
		ret = session_forward(j->session, &rows, e);
		if (ret == -ENOSPC && !make_room(j)) {
			ret = 0;
			continue;
		}
		for (uint32_t i = 0; i < j->n_work && !ret; i++) {
			struct held *h = &j->held[j->work[i]];

			if (!share[i])
				continue;
			ret = note(j, h, at, share[i], e);
			if (!ret)
				ret = session_accept(j->session, h->sequence,
					NULL, share[i], e);
			if (!ret)
				h->n += share[i];
			h->unread = h->n < h->end;
			at += share[i];
		}
	}
	return ret;
}

/* What was begun and not ended is as good as nothing. */
static void end_group(struct scorer *j)
{
	for (uint32_t i = 0; i < j->most; i++) {
		struct held *h = &j->held[i];

		h->busy = false;
		if (h->open && h->unread)
			forget(j, h);
	}
	j->n_work = 0;
}

/* ---- texts --------------------------------------------------------------- */

static int check_text(
	const struct scorer *j, const struct scorer_text *t, struct err *e)
{
	uint32_t most = session_context(j->session), n_vocab;

	if (t->n > most)
		return err_set(e, EFBIG,
			"the text to judge has %zu tokens, but the judge's "
			"context only %u",
			t->n, most);
	if (!t->n_prompt || t->n_prompt > t->n)
		return err_set(e, EINVAL,
			"the text to judge has %zu tokens, but %zu of them are "
			"to be its prompt",
			t->n, t->n_prompt);
	n_vocab = j->model->n_vocab;
	for (size_t i = 0; i < t->n; i++)
		if (t->token[i] < 0 || (uint32_t)t->token[i] >= n_vocab)
			return err_set(e, EINVAL,
				"token %d is not in the judge's vocabulary of "
				"%u",
				t->token[i], n_vocab);
	return 0;
}

/* The prompts that texts from `first` on have and nobody has read. */
static int read_prompts(struct scorer *j, const struct scorer_text *t,
	unsigned first, unsigned n, struct err *e)
{
	int ret = 0;

	for (unsigned i = first; i < n && !ret; i++) {
		struct scorer_text prompt = t[i];
		struct held *like;
		uint32_t have;

		prompt.n = prompt.n_prompt;
		like = best(j, &prompt, &have);
		if (have == prompt.n) {
			/* It shall be there when its texts come. */
			like->used = ++j->now;
			continue;
		}
		if (!is_coming(j, &prompt))
			ret = take(j, &prompt, like, have, e);
	}
	if (ret >= 0)
		ret = run(j, e);
	end_group(j);
	return ret;
}

/* Those that a group has room for, from `first` on: *end is the first that is
 * not in it. of[i] is where text i is. */
static int take_texts(struct scorer *j, const struct scorer_text *t,
	unsigned first, unsigned n, uint32_t *of, unsigned *end, struct err *e)
{
	int ret = 0;

	for (*end = first; *end < n; ++*end) {
		const struct scorer_text *text = &t[*end];
		uint32_t have;
		struct held *like = best(j, text, &have);

		if (have + 1 < text->n_prompt && *end > first)
			return 0; /* its prompt had no room before */
		if (like && have == text->n) {
			like->busy = true;
			like->used = ++j->now;
			of[*end] = (uint32_t)(like - j->held);
			continue;
		}
		ret = take(j, text, like, have, e);
		if (ret)
			break;
		of[*end] = j->work[j->n_work - 1];
	}
	return ret < 0 ? ret : 0;
}

static int hand_on(struct scorer *j, const struct scorer_text *t,
	unsigned first, unsigned *end, const uint32_t *of,
	int (*each)(void *arg, unsigned i, const struct scorer_notes *,
		struct err *),
	void *arg, struct err *e)
{
	for (unsigned i = first; i < *end; i++) {
		const struct held *h = &j->held[of[i]];
		struct scorer_notes notes = { .stride = j->reader.note };
		int ret;

		if (!h->open || h->unread) {
			*end = i; /* it had to make room */
			break;
		}
		notes.first = note_at(j, h, (uint32_t)t[i].n_prompt - 1);
		ret = each(arg, i, &notes, e);
		if (ret)
			return ret;
	}
	return 0;
}

static int read_group(struct scorer *j, const struct scorer_text *t,
	unsigned first, unsigned n, uint32_t *of, unsigned *end,
	int (*each)(void *arg, unsigned i, const struct scorer_notes *,
		struct err *),
	void *arg, struct err *e)
{
	int ret = read_prompts(j, t, first, n, e);

	if (!ret)
		ret = take_texts(j, t, first, n, of, end, e);
	if (!ret)
		ret = run(j, e);
	if (!ret)
		ret = hand_on(j, t, first, end, of, each, arg, e);
	end_group(j);
	if (!ret && *end == first)
		ret = err_set(e, ENOSPC, "no room to judge a text");
	return ret;
}

int scorer_read(struct scorer *j, const struct scorer_text *t, unsigned n,
	int (*each)(void *arg, unsigned i, const struct scorer_notes *,
		struct err *),
	void *arg, struct err *e)
{
	uint32_t *of = calloc(n ? n : 1, sizeof(*of));
	unsigned first = 0, end;
	int ret = of ? 0 : err_set(e, ENOMEM, "no memory for %u texts", n);

	for (unsigned i = 0; i < n && !ret; i++)
		ret = check_text(j, &t[i], e);
	for (; first < n && !ret; first = end)
		ret = read_group(j, t, first, n, of, &end, each, arg, e);
	free(of);
	return ret;
}
