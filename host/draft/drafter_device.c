#include "host/draft/drafter_device.h"

#include "base/err.h"
#include "host/draft/draft_kind.h"
#include "host/draft/drafting.h"
#include "host/draft/guess.h"
#include "host/model/model.h"
#include "host/session/logits.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The draft model's session and the memory for its passes, which the drafters
 * of several requests share. */
struct draft_session {
	struct session *session;
	/* whether to close the session when the drafter of SESSION_TEXT, the
	 * session's first sequence, is closed */
	bool owned;
	float temperature;
	uint32_t batch, max_rows;
	float *logits; /* [batch][n_vocab] */
	/* number of rows of the pass that is being prepared or was run last */
	uint32_t rows;
	struct row *row; /* [max_rows] the rows of this pass */
};

/* The drafter of one request. */
struct device {
	struct draft_session *s;
	uint32_t sequence; /* the request's sequence in the session */
	/* [context] the n tokens last passed to begin() or saw(), followed by
	 * `kept` drafted tokens whose keys and values are cached after those of
	 * the n tokens: a path of the tree, from a child of the root down */
	int32_t *text;
	uint32_t n, kept;
	int32_t last; /* row in `found` of the last kept token, if kept > 0 */
	struct guesses found;
	uint32_t *path; /* [context] scratch memory */
	/*
	 * For expand_all: the first `done` nodes of the call are already
	 * expanded. The next pass expands `fit` more nodes, whose rows in the
	 * pass begin at row `first`. For begin_all: `fit` is 1 if the next pass
	 * computes the root, else 0, and `first` is the root's row.
	 */
	uint32_t done, fit, first;
};

static struct device *device_of(const struct drafter_ask *ask)
{
	return ask->arg;
}

/* ---- a pass -------------------------------------------------------------- */

static uint32_t cached(const struct device *d)
{
	return session_length(d->s->session, d->sequence);
}

/* Number of tokens at the end of the text that are not in the session's cache.
 */
static uint32_t pending(const struct device *d)
{
	return d->n > cached(d) ? d->n - cached(d) : 0;
}

static uint32_t add_row(struct device *d, int32_t token, int32_t parent)
{
	struct draft_session *s = d->s;

	s->row[s->rows] = (struct row){ .token = token,
		.position =
			parent < 0 ? cached(d) : s->row[parent].position + 1,
		.sequence = d->sequence,
		.parent = parent };
	return s->rows++;
}

/* Add rows for the uncached end of the text. Returns the last of these rows,
 * which is the root, or -1 if the root is cached. */
static int32_t add_text(struct device *d)
{
	const int32_t *text = d->text + cached(d);
	int32_t row = -1;

	for (uint32_t i = pending(d); i; i--)
		row = (int32_t)add_row(d, *text++, row);
	return row;
}

/* Add the row `first` and its ancestors in the pass to the cache. */
static int keep_first(struct device *d, struct err *e)
{
	const struct row *row = d->s->row;
	uint32_t n = 0;

	for (int32_t r = (int32_t)d->first; r >= 0; r = row[r].parent)
		n++;
	for (int32_t r = (int32_t)d->first, i = (int32_t)n; r >= 0;
		r = row[r].parent)
		d->path[--i] = (uint32_t)r;
	return session_accept(d->s->session, d->sequence, d->path, n, e);
}

/* Run the prepared pass. Then add a row of each request and its ancestors to
 * the cache: the root or, of the nodes that were computed, the first. */
static int run_pass(const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	struct draft_session *s = device_of(ask)->s;
	const struct rows rows = { VISIBILITY_TREE, s->rows, s->row };
	int ret = session_forward(s->session, &rows, NULL, e);

	for (uint32_t i = 0; i < n && !ret; i++) {
		struct device *d = device_of(&ask[i]);

		if (d->fit)
			ret = keep_first(d, e);
	}
	return ret;
}

static uint32_t n_vocab(const struct draft_session *s)
{
	return session_model(s->session)->n_vocab;
}

/* Compute the guesses (likeliest next tokens) after n rows of the pass that was
 * just run. */
static int guess_rows(struct draft_session *s, const uint32_t *row,
	struct guess *const *guess, uint32_t n, struct err *e)
{
	uint32_t most = s->batch < LOGITS_ROWS ? s->batch : LOGITS_ROWS, some;
	float *out[LOGITS_ROWS];
	int ret = 0;

	for (uint32_t i = 0; i < most; i++)
		out[i] = s->logits + (size_t)i * n_vocab(s);
	for (uint32_t i = 0; i < n && !ret; i += some) {
		some = n - i < most ? n - i : most;
		ret = session_logits_rows(s->session, row + i, some, out, e);
		if (ret)
			break;
		session_add_tops(s->session, some, TREE_CANDIDATES);
		for (uint32_t k = 0; k < some; k++)
			guess_logits(guess[i + k], out[k], n_vocab(s),
				s->temperature);
	}
	return ret;
}

/* Let `step` compute guesses for n requests together. If `step` fails because
 * the cached texts are in more ranges of cache slots than a pass can describe
 * (-ENOSPC), let `step` compute the requests one by one. */
static int take(int (*step)(const struct drafter_ask *, uint32_t, struct err *),
	const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	int ret = step(ask, n, e);

	if (ret != -ENOSPC || n == 1)
		return ret;
	ret = 0;
	for (uint32_t i = 0; i < n && !ret; i++)
		ret = step(&ask[i], 1, e);
	return ret;
}

/* ---- expanding the root -------------------------------------------------- */

/* Keep the cached tokens of the common prefix of the new text and of the old
 * text with its drafted tokens. The guesses are kept only if the new text
 * continues the old text. */
static void reuse(struct device *d, const int32_t *text, uint32_t n)
{
	size_t same = text_common(text, n, d->text, d->n + d->kept);

	if (same < d->n)
		guesses_forget(&d->found);
	else
		guesses_follow(&d->found, text + d->n, n - d->n, d->path);
	session_truncate(d->s->session, d->sequence, (uint32_t)same);
	memcpy(d->text + same, text + same, (n - same) * sizeof(*text));
	d->n = n;
	d->kept = 0;
}

static void device_saw(void *arg, const int32_t *text, size_t n)
{
	struct device *d = arg;

	if (n <= session_context(d->s->session))
		reuse(d, text, (uint32_t)n);
}

/* Compute the guesses after the roots of n requests, in as few passes as
 * possible. */
static int look_at_roots(
	const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	struct draft_session *s = device_of(ask)->s;
	uint32_t row[ROWS_SEQUENCES], roots, end, last;
	struct guess *guess[ROWS_SEQUENCES];
	int ret = 0;

	/* Prefill the tokens that precede a root if the cache is empty or if a
	 * pass has too few rows for these tokens. */
	for (uint32_t i = 0; i < n && !ret; i++) {
		const struct device *d = device_of(&ask[i]);
		uint32_t before = pending(d) - 1;

		if (before && (!cached(d) || before >= s->max_rows))
			ret = session_prefill(s->session, d->sequence,
				d->text + cached(d), before, NULL, &last, e);
	}
	for (uint32_t i = 0; i < n && !ret; i = end) {
		s->rows = roots = 0;
		for (end = i; end < n; end++) {
			struct device *d = device_of(&ask[end]);

			if (s->rows + pending(d) > s->max_rows)
				break;
			d->fit = 1;
			d->first = (uint32_t)add_text(d);
			row[roots] = d->first;
			guess[roots++] = &d->found.root;
		}
		ret = run_pass(ask + i, end - i, e);
		if (!ret)
			ret = guess_rows(s, row, guess, roots, e);
	}
	return ret;
}

static int device_begin_all(
	const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	struct drafter_ask unknown[ROWS_SEQUENCES];
	uint32_t roots = 0;
	int ret = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct device *d = device_of(&ask[i]);

		assert(ask[i].n_text > 0);
		tree_reset(ask[i].tree, ask[i].text[ask[i].n_text - 1]);
		if (ask[i].n_text > session_context(d->s->session))
			continue;
		reuse(d, ask[i].text, (uint32_t)ask[i].n_text);
		if (d->found.root.n)
			continue;
		/* the root's guess needs the root's row */
		session_truncate(d->s->session, d->sequence, d->n - 1);
		unknown[roots++] = ask[i];
	}
	if (roots)
		ret = take(look_at_roots, unknown, roots, e);
	for (uint32_t i = 0; i < n && !ret; i++)
		if (ask[i].n_text <=
			session_context(device_of(ask)->s->session))
			guess_put(&device_of(&ask[i])->found.root, ask[i].tree,
				0);
	return ret;
}

static int device_begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	const struct drafter_ask ask = {
		.arg = arg, .tree = t, .text = text, .n_text = n
	};

	return device_begin_all(&ask, 1, e);
}

/* ---- expanding other nodes ----------------------------------------------- */

/* Values of the member `at` of a row (struct guess_row) before the row gets its
 * index in the pass. LEFT_OUT: the pass does not compute the row. TRIED: the
 * row is an ancestor of a node that is being considered. CHOSEN: the pass
 * computes the row. CACHED: the row's keys and values are in the cache. */
enum { LEFT_OUT, TRIED, CHOSEN };
#define CACHED UINT32_MAX

/* Value of tree->row for a node that had no room in a pass. */
#define NO_ROOM INT32_MAX

/* Set the mark (`at`) of a row and of its ancestors. Stop at the first row that
 * already has this mark or a higher one. Returns the number of rows that were
 * marked. */
static uint32_t mark_up(struct guesses *g, int32_t row, uint32_t mark)
{
	uint32_t n = 0;

	for (; row >= 0 && g->row[row].at < mark; row = g->row[row].parent) {
		g->row[row].at = mark;
		n++;
	}
	return n;
}

/* Keep only those cached drafted tokens that are ancestors of all n nodes;
 * nodes that must wait for a later pass do not count. Mark the rows of the kept
 * tokens as CACHED, and all other rows as LEFT_OUT. */
static void keep_shared(struct device *d, const struct tree *t,
	const uint32_t *node, uint32_t n)
{
	struct guesses *g = &d->found;
	int32_t row = d->kept ? d->last : -1;
	uint32_t shared = d->kept;

	for (uint32_t i = 0; i < g->n; i++)
		g->row[i].at = 0;
	for (uint32_t i = d->kept; i; i--, row = g->row[row].parent)
		g->row[row].at = i;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t depth = 0; /* number of kept ancestors */

		row = guesses_above(t, node[i]);
		if (row >= (int32_t)g->n)
			break;
		for (; row >= 0 && !depth; row = g->row[row].parent)
			depth = g->row[row].at;
		shared = depth < shared ? depth : shared;
	}
	if (shared < d->kept)
		session_truncate(d->s->session, d->sequence, d->n + shared);
	for (; d->kept > shared; d->kept--)
		d->last = g->row[d->last].parent;
	for (uint32_t i = 0; i < g->n; i++)
		g->row[i].at = g->row[i].at && g->row[i].at <= shared
			? CACHED
			: LEFT_OUT;
}

/*
 * Returns how many of the n nodes, from node[0] on, fit into the pass that is
 * being prepared, together with all their ancestors and the uncached end of the
 * text. Marks the rows of the ancestors as CHOSEN.
 */
static uint32_t choose(
	struct device *d, struct tree *t, const uint32_t *node, uint32_t n)
{
	uint32_t room = d->s->max_rows - d->s->rows, fit = 0, most;
	struct guesses *g = &d->found;
	uint32_t used = pending(d);

	keep_shared(d, t, node, n);
	most = session_context(d->s->session) - cached(d);
	most = most < room ? most : room;
	for (; fit < n; fit++) {
		int32_t above = guesses_above(t, node[fit]);

		/* The node's parent is itself one of node[] and is not expanded
		 * yet, so the node must wait for a later pass. */
		if (above >= (int32_t)g->n)
			break;
		t->row[node[fit]] = g->n + fit;
		used += 1 + mark_up(g, above, TRIED);
		if (used > most)
			break;
		mark_up(g, above, CHOSEN);
	}
	return fit;
}

/* Index in the pass of a node's parent: the index of row `above`, or of the
 * root if `above` is -1. The index is -1 if the parent is cached. */
static int32_t pass_row(const struct device *d, int32_t above, int32_t root)
{
	return above < 0 ? root : (int32_t)d->found.row[above].at;
}

/* Add a request's rows for the next `fit` nodes to expand: first the ancestors
 * of these nodes, in the order in which guesses.row lists them, so that a
 * parent comes before its children; then the nodes. */
static void add_nodes(
	struct device *d, const struct tree *t, const uint32_t *node)
{
	struct guesses *g = &d->found;
	int32_t root = add_text(d);

	for (uint32_t i = 0; i < g->n; i++)
		if (g->row[i].at == CHOSEN)
			g->row[i].at = add_row(d, g->row[i].token,
				pass_row(d, g->row[i].parent, root));
	d->first = d->s->rows;
	for (uint32_t i = 0; i < d->fit; i++)
		add_row(d, t->token[node[i]],
			pass_row(d, guesses_above(t, node[i]), root));
}

/* Note that the cache now ends with the given row of `found`. */
static void set_last(struct device *d, uint32_t row)
{
	const struct guess_row *all = d->found.row;
	uint32_t i;

	d->last = (int32_t)row;
	d->kept = 0;
	for (int32_t r = d->last; r >= 0; r = all[r].parent)
		d->kept++;
	i = d->n + d->kept;
	for (int32_t r = d->last; r >= 0; r = all[r].parent)
		d->text[--i] = all[r].token;
}

/* Run the prepared pass, and set the candidates of the nodes that it
 * computed. */
static int look_at_nodes(
	const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	struct draft_session *s = device_of(ask)->s;
	uint32_t row[WIRE_MAX_ROWS], nodes = 0;
	struct guess *guess[WIRE_MAX_ROWS] = { NULL };
	int ret = run_pass(ask, n, e);

	for (uint32_t a = 0; a < n && !ret; a++) {
		struct device *d = device_of(&ask[a]);
		const struct tree *t = ask[a].tree;

		for (uint32_t i = 0; i < d->fit; i++) {
			uint32_t u = ask[a].node[d->done + i];
			uint32_t own = guesses_add(
				&d->found, t->token[u], guesses_above(t, u));

			assert(own == t->row[u]);
			row[nodes] = d->first + i;
			guess[nodes++] = &d->found.row[own].guess;
		}
		if (d->fit)
			set_last(d, t->row[ask[a].node[d->done]]);
	}
	if (!ret)
		ret = guess_rows(s, row, guess, nodes, e);
	for (uint32_t a = 0; a < n && !ret; a++) {
		struct device *d = device_of(&ask[a]);

		for (uint32_t i = 0; i < d->fit; i++) {
			uint32_t u = ask[a].node[d->done + i];

			guess_put(&d->found.row[ask[a].tree->row[u]].guess,
				ask[a].tree, u);
		}
		d->done += d->fit;
	}
	return ret;
}

/* Prepare a pass with nodes of as many requests as fit into the pass. If an
 * empty pass has no room for any node of a request, cache the request's
 * uncached text first, so that later passes have room for more nodes. If the
 * text is already cached, the request's next node gets no candidates. */
static int choose_nodes(
	const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	struct draft_session *s = device_of(ask)->s;
	int ret = 0;

	s->rows = 0;
	for (uint32_t a = 0; a < n; a++)
		device_of(&ask[a])->fit = 0;
	for (uint32_t a = 0; a < n && !ret; a++) {
		struct device *d = device_of(&ask[a]);
		const uint32_t *node = ask[a].node + d->done;
		uint32_t left = ask[a].n - d->done;

		if (!left)
			continue;
		ret = guesses_reserve(&d->found, left, e);
		if (ret)
			break;
		d->fit = choose(d, ask[a].tree, node, left);
		if (d->fit) {
			add_nodes(d, ask[a].tree, node);
		} else if (!s->rows && pending(d) > 1) {
			ret = look_at_roots(&ask[a], 1, e);
			s->rows = d->fit = 0;
		} else if (!s->rows) {
			ask[a].tree->n_candidates[node[0]] = 0;
			ask[a].tree->row[node[0]] = NO_ROOM;
			d->done++;
		}
	}
	return ret;
}

static int look_at_rest(
	const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	int ret = 0;

	for (uint32_t a = 0; a < n; a++)
		while (!ret && device_of(&ask[a])->done < ask[a].n) {
			ret = choose_nodes(ask, n, e);
			if (!ret && device_of(ask)->s->rows)
				ret = look_at_nodes(ask, n, e);
		}
	return ret;
}

static int device_expand_all(
	const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	for (uint32_t a = 0; a < n; a++)
		device_of(&ask[a])->done = 0;
	return take(look_at_rest, ask, n, e);
}

static int device_expand(void *arg, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	const struct drafter_ask ask = {
		.arg = arg, .tree = t, .node = node, .n = n
	};

	return device_expand_all(&ask, 1, e);
}

/* ---- opening ------------------------------------------------------------- */

static void device_close(void *arg)
{
	struct device *d = arg;
	struct draft_session *s = d->s;

	guesses_release(&d->found);
	free(d->text);
	free(d->path);
	if (d->sequence != SESSION_TEXT) {
		session_remove(s->session, d->sequence);
	} else {
		if (s->owned)
			session_close(s->session, NULL);
		free(s->logits);
		free(s->row);
		free(s);
	}
	free(d);
}

/* Open a drafter that uses one sequence of the draft session, for one request
 * after another. Closing the drafter removes the sequence. Exception: the
 * drafter on the session's first sequence, SESSION_TEXT, owns `s`; closing it
 * frees `s`. */
static int open_on(struct drafter *out, struct draft_session *s,
	uint32_t sequence, struct err *e)
{
	uint32_t context = session_context(s->session);
	struct device *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(e, ENOMEM, "no memory for a drafter");
	d->s = s;
	d->sequence = sequence;
	d->text = malloc(context * sizeof(*d->text));
	d->path = malloc(context * sizeof(*d->path));
	if (!d->text || !d->path) {
		free(d->text);
		free(d->path);
		free(d);
		return err_set(e, ENOMEM, "no memory for a drafter");
	}
	*out = (struct drafter){ .arg = d,
		.begin = device_begin,
		.expand = device_expand,
		.begin_all = device_begin_all,
		.expand_all = device_expand_all,
		.batch = s->batch,
		.most = s->batch,
		.saw = device_saw,
		.close = device_close };
	return 0;
}

int drafter_device_open(struct drafter *out, struct session *session,
	uint32_t batch, struct err *e)
{
	struct draft_session *s;
	int ret;

	assert(batch > 0);
	if (!session_model(session)->causal)
		return err_set(e, EINVAL,
			"a model of architecture '%s' cannot draft: it does "
			"not generate from left to right",
			session_model(session)->arch);
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, ENOMEM, "no memory for a drafter");
	*s = (struct draft_session){ .session = session,
		.temperature = 1,
		.batch = batch,
		.max_rows = session_max_rows(session) };
	s->logits = malloc(batch * sizeof(*s->logits) * n_vocab(s));
	s->row = malloc(s->max_rows * sizeof(*s->row));
	ret = s->logits && s->row
		? open_on(out, s, SESSION_TEXT, e)
		: err_set(e, ENOMEM, "no memory to draft %u nodes at once",
			  batch);
	if (ret) {
		free(s->logits);
		free(s->row);
		free(s);
		return ret;
	}
	session_truncate(session, SESSION_TEXT, 0);
	return 0;
}

int drafter_device_open_like(
	struct drafter *out, const struct drafter *like, struct err *e)
{
	struct draft_session *s = ((struct device *)like->arg)->s;
	uint32_t sequence;
	int ret = session_add(s->session, &sequence, e);

	if (ret)
		return ret;
	ret = open_on(out, s, sequence, e);
	if (ret)
		session_remove(s->session, sequence);
	return ret;
}

void drafter_device_temperature(struct drafter *d, float temperature)
{
	assert(temperature > 0);
	((struct device *)d->arg)->s->temperature = temperature;
}

/* ---- the kind of drafter (draft_kind.h) ---------------------------------- */

#define BATCH 8 /* default number of nodes that one pass on the NPU expands */

/* The draft model's weights all stay in memory; --dram-budget applies to the
 * target only. */
static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	const struct drafting_options *o = site->options;
	struct session_opts own = *site->session_opts;
	struct session *session;
	int ret;

	if (site->like)
		return drafter_device_open_like(out, site->like, e);
	own.beside = site->session;
	own.dram_share = 1;
	own.dram_bytes = 0;
	own.exit_layers = own.tap_layers = 0;
	own.as = drafting_as(o);
	own.layout = LAYOUT_DEFAULT;
	/* only the target's session switches between NPU graphs */
	own.graph_switch = SWITCH_OFF;
	own.one_graph = false;
	own.smaller_graphs = true;
	own.decode_rows = site->rows;
	/* with slots == 0, the cache has room for one sequence of context_need
	 * tokens for each request */
	own.slots = 0;
	own.context = 0;
	own.context_need = session_context(site->session);
	ret = session_open(&session, site->file, &own, e);
	if (ret)
		return err_in(e, "'%s'", site->path);
	ret = drafter_device_open(out, session, o->batch ? o->batch : BATCH, e);
	if (ret) {
		session_close(session, NULL);
		return ret;
	}
	((struct device *)out->arg)->s->owned = true;
	drafter_device_temperature(out, (float)o->temperature);
	return 0;
}

const struct draft_kind draft_kind_device = {
	.summary = "a draft model on the device",
	.on_device = true,
	.open = open_kind,
};
