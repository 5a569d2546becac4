#include "host/draft/drafter_device.h"

#include "base/err.h"
#include "host/draft/draft_kind.h"
#include "host/draft/drafting.h"
#include "host/draft/guess.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/tree/drafter.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct device {
	struct session *session;
	bool owned; /* close the session with the drafter */
	float temperature;
	uint32_t batch, max_rows;
	/* [context] the n tokens of the sequence that begin() was called with
	 * last */
	int32_t *text;
	uint32_t n;
	struct guesses found;
	float *logits;   /* [batch][n_vocab] */
	uint32_t rows;   /* rows of the current pass */
	struct row *row; /* [max_rows] */
	uint32_t *path;  /* [context] */
};

/* ---- a pass -------------------------------------------------------------- */

/* Number of tokens at the end of the sequence that are not in the session's
 * cache: the root, and tokens added since the last pass. */
static uint32_t pending(const struct device *d)
{
	return d->n - session_length(d->session, SESSION_TEXT);
}

static uint32_t add_row(struct device *d, int32_t token, int32_t parent)
{
	d->row[d->rows] = (struct row){ .token = token,
		.position = parent < 0
			? session_length(d->session, SESSION_TEXT)
			: d->row[parent].position + 1,
		.sequence = SESSION_TEXT,
		.parent = parent };
	return d->rows++;
}

/* Add the uncached end of the sequence as the pass's first rows. The last of
 * these rows is the root. */
static void add_text(struct device *d)
{
	const int32_t *text =
		d->text + session_length(d->session, SESSION_TEXT);

	d->rows = 0;
	for (uint32_t i = pending(d); i; i--)
		add_row(d, *text++, (int32_t)d->rows - 1);
}

/* Compute the rows. Then accept the rows of the sequence into the cache, except
 * the root. */
static int run_pass(struct device *d, struct err *e)
{
	const struct rows rows = { VISIBILITY_TREE, d->rows, d->row };
	uint32_t known = pending(d) - 1;
	int ret = session_forward(d->session, &rows, NULL, e);

	if (ret)
		return ret;
	return session_accept(d->session, SESSION_TEXT, NULL, known, e);
}

static uint32_t n_vocab(const struct device *d)
{
	return session_model(d->session)->n_vocab;
}

/* ---- the root ------------------------------------------------------------ */

/* Keep the cache up to the common prefix of the old and the new sequence. The
 * guesses are kept only if the new sequence continues the old one. */
static void reuse(struct device *d, const int32_t *text, uint32_t n)
{
	size_t same = text_common(text, n, d->text, d->n);

	if (same < d->n)
		guesses_forget(&d->found);
	else
		guesses_follow(&d->found, text + same, n - same, d->path);
	session_truncate(
		d->session, SESSION_TEXT, (uint32_t)(same < n ? same : n - 1));
	memcpy(d->text + same, text + same, (n - same) * sizeof(*text));
	d->n = n;
}

static void device_saw(void *arg, const int32_t *text, size_t n)
{
	struct device *d = arg;

	if (n <= session_context(d->session))
		reuse(d, text, (uint32_t)n);
}

static int look_at_root(struct device *d, struct err *e)
{
	uint32_t length = session_length(d->session, SESSION_TEXT);
	uint32_t n = pending(d) - 1, last;
	int ret = 0;

	/* Prefill the tokens that precede the root if the cache is empty or if
	 * a pass has too few rows for these tokens. */
	if (n && (!length || n >= d->max_rows))
		ret = session_prefill(d->session, SESSION_TEXT,
			d->text + length, n, NULL, &last, e);
	if (ret)
		return ret;
	add_text(d);
	ret = run_pass(d, e);
	if (!ret)
		ret = session_logits(d->session, d->rows - 1, d->logits, e);
	if (ret)
		return ret;
	guess_logits(&d->found.root, d->logits, n_vocab(d), d->temperature);
	session_add_tops(d->session, 1, TREE_CANDIDATES);
	return 0;
}

static int device_begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	struct device *d = arg;
	int ret = 0;

	assert(n > 0);
	tree_reset(t, text[n - 1]);
	if (n > session_context(d->session))
		return 0;
	reuse(d, text, (uint32_t)n);
	if (!d->found.root.n)
		ret = look_at_root(d, e);
	if (!ret)
		guess_put(&d->found.root, t, 0);
	return ret;
}

/* ---- nodes --------------------------------------------------------------- */

/* Values of a row's `at` until it is set to the row's index in the pass. TRIED:
 * the row is an ancestor of a node that is being considered. CHOSEN: the pass
 * computes the row. */
enum { LEFT_OUT, TRIED, CHOSEN };

/* Value of tree->row for a node for which there was no room. */
#define NO_ROOM INT32_MAX

/* Set the mark of a row and of its ancestors. Stop at the first ancestor that
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

/*
 * Returns how many of the n nodes (a prefix of node[]) fit into one pass,
 * together with all their ancestors and the uncached end of the sequence. Marks
 * the rows of the ancestors as CHOSEN.
 */
static uint32_t choose(
	struct device *d, struct tree *t, const uint32_t *node, uint32_t n)
{
	const struct session *s = d->session;
	uint32_t most = session_context(s) - session_length(s, SESSION_TEXT),
		 fit = 0;
	struct guesses *g = &d->found;
	uint32_t used = pending(d);

	most = most < d->max_rows ? most : d->max_rows;
	for (uint32_t i = 0; i < g->n; i++)
		g->row[i].at = LEFT_OUT;
	for (; fit < n; fit++) {
		int32_t above = guesses_above(t, node[fit]);

		/* The parent is itself one of node[], so it must be computed in
		 * an earlier pass. */
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

/* Index in the pass of a node's parent: of row `above`, or of the root if
 * `above` is -1. */
static int32_t pass_row(const struct device *d, int32_t above, uint32_t root)
{
	return (int32_t)(above < 0 ? root : d->found.row[above].at);
}

static int look(struct device *d, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	struct guesses *g = &d->found;
	uint32_t root, some;
	int ret = guesses_reserve(g, n, e);

	if (ret)
		return ret;
	add_text(d);

	/* Add the ancestors in the order of their rows, so that parents come
	 * first; then add the nodes to expand. */
	root = d->rows - 1;
	for (uint32_t i = 0; i < g->n; i++)
		if (g->row[i].at == CHOSEN)
			g->row[i].at = add_row(d, g->row[i].token,
				pass_row(d, g->row[i].parent, root));
	for (uint32_t i = 0; i < n; i++)
		add_row(d, t->token[node[i]],
			pass_row(d, guesses_above(t, node[i]), root));

	ret = run_pass(d, e);
	for (uint32_t i = 0; i < n && !ret; i += some) {
		some = n - i < d->batch ? n - i : d->batch;
		ret = session_logits_range(
			d->session, d->rows - n + i, some, d->logits, e);
		if (!ret)
			session_add_tops(d->session, some, TREE_CANDIDATES);
		for (uint32_t k = 0; !ret && k < some; k++) {
			uint32_t u = node[i + k];
			uint32_t own = guesses_add(
				g, t->token[u], guesses_above(t, u));

			assert(own == t->row[u]);
			guess_logits(&g->row[own].guess,
				d->logits + (size_t)k * n_vocab(d), n_vocab(d),
				d->temperature);
			guess_put(&g->row[own].guess, t, u);
		}
	}
	return ret;
}

static int device_expand(void *arg, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	struct device *d = arg;
	uint32_t fit;
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i += fit) {
		fit = choose(d, t, node + i, n - i);
		if (fit) {
			ret = look(d, t, node + i, fit, e);
		} else if (pending(d) > 1) {
			/* Put the uncached end of the sequence into the cache,
			 * so that later passes have room for more rows. */
			ret = look_at_root(d, e);
		} else {
			t->n_candidates[node[i]] = 0;
			t->row[node[i]] = NO_ROOM;
			fit = 1;
		}
	}
	return ret;
}

/* ---- opening ------------------------------------------------------------- */

static void device_close(void *arg)
{
	struct device *d = arg;

	if (d->owned)
		session_close(d->session, NULL);
	guesses_release(&d->found);
	free(d->text);
	free(d->logits);
	free(d->row);
	free(d->path);
	free(d);
}

int drafter_device_open(struct drafter *out, struct session *session,
	uint32_t batch, struct err *e)
{
	uint32_t context = session_context(session);
	struct device *d;

	assert(batch > 0);
	if (!session_model(session)->causal)
		return err_set(e, EINVAL,
			"a model of architecture '%s' cannot draft: it does "
			"not generate from left to right",
			session_model(session)->arch);
	d = calloc(1, sizeof(*d));
	if (!d)
		return err_set(e, ENOMEM, "no memory for a drafter");
	d->session = session;
	d->temperature = 1;
	d->batch = batch;
	d->max_rows = session_max_rows(session);
	d->text = malloc(context * sizeof(*d->text));
	d->logits = malloc(batch * sizeof(*d->logits) * n_vocab(d));
	d->row = malloc(d->max_rows * sizeof(*d->row));
	d->path = malloc(context * sizeof(*d->path));
	if (!d->text || !d->logits || !d->row || !d->path) {
		device_close(d);
		return err_set(e, ENOMEM, "no memory to draft %u nodes at once",
			batch);
	}
	session_truncate(session, SESSION_TEXT, 0);
	*out = (struct drafter){ .arg = d,
		.begin = device_begin,
		.expand = device_expand,
		.batch = batch,
		.most = batch,
		.saw = device_saw,
		.close = device_close };
	return 0;
}

void drafter_device_temperature(struct drafter *d, float temperature)
{
	struct device *dev = d->arg;

	assert(temperature > 0);
	dev->temperature = temperature;
}

/* ---- as a kind ----------------------------------------------------------- */

#define BATCH 8 /* nodes that are expanded in one pass on the NPU */

/* The draft model's weights all stay in memory; --dram-budget applies to the
 * target only. */
static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	const struct drafting_options *o = site->options;
	struct session_opts own = *site->session_opts;
	struct session *session;
	struct device *d;
	int ret;

	own.beside = site->session;
	own.dram_share = 1;
	own.dram_bytes = 0;
	own.exit_layers = own.tap_layers = 0;
	own.as = drafting_as(o);
	own.layout = LAYOUT_DEFAULT;
	/* graph switching is only for the target's session */
	own.graph_switch = SWITCH_OFF;
	own.one_graph = false;
	own.smaller_graphs = true;
	own.decode_rows = site->rows;
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
	d = out->arg;
	d->owned = true;
	drafter_device_temperature(out, (float)o->temperature);
	return 0;
}

const struct draft_kind draft_kind_device = {
	.summary = "a draft model on the device",
	.on_device = true,
	.open = open_kind,
};
