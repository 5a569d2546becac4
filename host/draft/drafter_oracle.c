#include "host/draft/drafter_oracle.h"

#include "base/err.h"
#include "base/rng.h"
#include "host/draft/draft_kind.h"
#include "host/draft/drafting.h"
#include "host/model/model.h"
#include "host/model/shapes.h"
#include "host/session/session.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tensor/soc/price_layer.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Ids of independent streams of random numbers. STREAM_RANK: ranks of true
 * tokens. STREAM_BESIDE: wrong candidates for the next token of the given
 * sequence. STREAM_LEFT: hashes of paths that leave the sequence. Each path
 * that has left the sequence has its own stream. The bits of STREAM_ELSEWHERE
 * are set in the id of such a stream, so this id differs from the three ids
 * above. */
enum { STREAM_RANK, STREAM_BESIDE, STREAM_LEFT, STREAM_ELSEWHERE };

/* State of a path. Either the path agrees with the given sequence for `at`
 * tokens, or the path has left the sequence; then `hash` identifies the
 * position where the path left and the path's tokens from this position on. */
struct place {
	size_t at;
	/* whether the path agrees with the sequence, and the next token of the
	 * sequence is known */
	bool known;
	uint64_t hash;
};

struct oracle {
	int32_t *text; /* [n] the given sequence */
	size_t n;
	struct oracle_curve curve;
	uint64_t seed;
	uint32_t n_vocab;
	struct place root;
	/* Cost model: drafting costs as much as with a draft model of this
	 * shape that computes `batch` rows at a time on the phone's CPU. If
	 * `as` is NULL, drafting has no cost. */
	const struct shape *as;
	const struct soc *soc;
	struct shape_type type;
	uint32_t batch;
	struct price price;
};

static uint64_t word(const struct oracle *o, uint64_t stream, uint64_t position)
{
	uint32_t w[4];

	rng_words(o->seed, stream, position, w);
	return (uint64_t)w[1] << 32 | w[0];
}

/* ---- state of a path ----------------------------------------------------- */

/* The state of a path that agrees with the sequence for `at` tokens and whose
 * next token is unknown or differs from the sequence. */
static struct place off(const struct oracle *o, size_t at)
{
	uint64_t hash = word(o, STREAM_LEFT, at);

	return (struct place){ at, false, hash | STREAM_ELSEWHERE };
}

static struct place along(const struct oracle *o, size_t at)
{
	return at < o->n ? (struct place){ at, true, 0 } : off(o, at);
}

static struct place step(const struct oracle *o, struct place p, int32_t token)
{
	if (p.known && o->text[p.at] == token)
		return along(o, p.at + 1);
	if (p.known)
		p = off(o, p.at);
	p.hash = word(o, p.hash, (uint32_t)token) | STREAM_ELSEWHERE;
	return p;
}

static struct place place_of(
	const struct oracle *o, const struct tree *t, uint32_t node)
{
	if (!node)
		return o->root;
	return step(
		o, place_of(o, t, (uint32_t)t->parent[node]), t->token[node]);
}

/* ---- cost on the phone --------------------------------------------------- */

static void price_nodes(struct oracle *o, uint32_t n)
{
	for (uint32_t some; o->as && n; n -= some) {
		struct price_layer layer = { .n_embd = o->as->n_embd,
			.n_head = o->as->n_head,
			.n_kv_head = o->as->n_kv_head,
			.head_dim = o->as->head_dim,
			.n_ff = o->as->n_ff };

		some = n < o->batch ? n : o->batch;
		for (unsigned m = 0; m < PRICE_MATRICES; m++)
			layer.type[m] =
				m == PRICE_DOWN ? o->type.down : o->type.type;
		price_cpu_model(o->soc, &layer, o->as->n_layer, o->as->n_vocab,
			o->type.type, some, &o->price);
	}
}

static void oracle_price(void *arg, struct price *sum)
{
	struct oracle *o = arg;

	price_add(sum, &o->price);
	o->price = (struct price){ 0 };
}

/* ---- candidates ---------------------------------------------------------- */

/* Random rank of the true token after the first `at` tokens. The probability of
 * a rank >= r is (1 - agreement)^r. */
static uint32_t true_rank(const struct oracle *o, size_t at, double agreement)
{
	double u = rng_uniform(o->seed, STREAM_RANK, at), r;

	if (agreement == 1)
		return 0;
	if (agreement == 0) /* avoid a division by 0 */
		return TREE_CANDIDATES;
	r = log1p(-u) / log1p(-agreement);
	return r < TREE_CANDIDATES ? (uint32_t)r : TREE_CANDIDATES;
}

static bool among(const struct candidate *c, uint32_t n, int32_t token)
{
	for (uint32_t i = 0; i < n; i++)
		if (c[i].token == token)
			return true;
	return false;
}

/* Returns a pseudo-random token that is neither `truth` nor among the first n
 * candidates. */
static int32_t other(const struct oracle *o, uint64_t stream, uint64_t position,
	const struct candidate *c, uint32_t n, int32_t truth)
{
	uint64_t id = word(o, stream, position * TREE_CANDIDATES + n);
	int32_t token = (int32_t)(id % o->n_vocab);

	while (token == truth || among(c, n, token))
		token = (int32_t)(((uint32_t)token + 1) % o->n_vocab);
	return token;
}

static void guess(
	const struct oracle *o, struct tree *t, uint32_t node, struct place p)
{
	struct candidate *c = t->candidate + (size_t)node * t->k;
	uint32_t last = o->curve.n - 1, depth = t->depth[node], n;
	double agreement = o->curve.p[depth < last ? depth : last];
	uint32_t rank =
		p.known ? true_rank(o, p.at, agreement) : TREE_CANDIDATES;
	int32_t truth = p.known ? o->text[p.at] : -1;
	uint64_t stream = p.known ? STREAM_BESIDE : p.hash;
	uint64_t position = p.known ? p.at : (uint64_t)o->n_vocab;
	double q = agreement;

	for (n = 0; n < t->k && ((float)q > 0 || agreement == 0); n++) {
		c[n].token = n == rank
			? truth
			: other(o, stream, position, c, n, truth);
		c[n].q = (float)q;
		c[n].source = SOURCE_MODEL;
		q *= 1 - agreement;
	}
	t->n_candidates[node] = n;
}

static int oracle_begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	struct oracle *o = arg;

	assert(n > 0);
	tree_reset(t, text[n - 1]);
	o->root = along(o, 0);
	for (size_t i = 0; i < n; i++)
		o->root = step(o, o->root, text[i]);
	guess(o, t, 0, o->root);
	price_nodes(o, 1);
	return 0;
}

static int oracle_expand(void *arg, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	struct oracle *o = arg;

	for (uint32_t i = 0; i < n; i++)
		guess(o, t, node[i], place_of(o, t, node[i]));
	price_nodes(o, n);
	return 0;
}

/* ---- opening ------------------------------------------------------------- */

static void oracle_close(void *arg)
{
	struct oracle *o = arg;

	free(o->text);
	free(o);
}

int drafter_oracle_open(struct drafter *out, const int32_t *text, size_t n,
	const struct oracle_curve *curve, uint64_t seed, uint32_t n_vocab,
	struct err *e)
{
	struct oracle *o;

	if (!curve->n || curve->n > ORACLE_POSITIONS)
		return err_set(e, EINVAL,
			"the oracle has probabilities for %u positions; 1 to "
			"%d were expected",
			curve->n, ORACLE_POSITIONS);
	for (uint32_t i = 0; i < curve->n; i++)
		if (!(curve->p[i] >= 0 && curve->p[i] <= 1))
			return err_set(e, EINVAL,
				"the oracle's probability is %g; 0 to 1 was "
				"expected",
				curve->p[i]);
	if (n_vocab <= TREE_CANDIDATES)
		return err_set(e, EINVAL,
			"a vocabulary of %u tokens is too small for --draft "
			"oracle, which needs %d candidates",
			n_vocab, TREE_CANDIDATES);
	for (size_t i = 0; i < n; i++)
		if (text[i] < 0 || (uint32_t)text[i] >= n_vocab)
			return err_set(e, EINVAL,
				"token %d is outside the vocabulary of %u",
				text[i], n_vocab);
	o = calloc(1, sizeof(*o));
	if (o)
		o->text = malloc((n + 1) * sizeof(*text));
	if (!o || !o->text) {
		free(o);
		return err_set(e, ENOMEM, "no memory for %zu tokens", n);
	}
	memcpy(o->text, text, n * sizeof(*text));
	o->n = n;
	o->curve = *curve;
	o->seed = seed;
	o->n_vocab = n_vocab;
	*out = (struct drafter){ .arg = o,
		.begin = oracle_begin,
		.expand = oracle_expand,
		.batch = 1,
		.close = oracle_close };
	return 0;
}

void drafter_oracle_price_as(struct drafter *d, const struct soc *soc,
	const struct shape *as, struct shape_type type, uint32_t batch)
{
	struct oracle *o = d->arg;

	o->soc = soc;
	o->as = as;
	o->type = type;
	if (type.type == DTYPE_F32)
		o->type = (struct shape_type){ DTYPE_Q8_0, DTYPE_Q8_0 };
	o->batch = batch ? batch : DRAFT_TOGETHER;
	d->batch = batch ? batch : 1;
	d->most = batch ? batch : DRAFT_WEIGHED;
	d->price = oracle_price;
}

/* ---- the kind of drafter (draft_kind.h) ---------------------------------- */

static int parse_curve(
	const char *word, struct oracle_curve *curve, struct err *e)
{
	for (curve->n = 0;; word++) {
		size_t len = strcspn(word, ",");
		int shown = len < 40 ? (int)len : 40;
		char *end;
		double p = strtod(word, &end);

		if (curve->n == ORACLE_POSITIONS)
			return err_set(e, EINVAL,
				"--draft oracle: '%.*s' is number %d, but at "
				"most %d numbers are possible; leave out this "
				"and later numbers: number %d also holds for "
				"all later positions",
				shown, word, ORACLE_POSITIONS + 1,
				ORACLE_POSITIONS, ORACLE_POSITIONS);
		if (!len || end != word + len || !(p >= 0 && p <= 1))
			return err_set(e, EINVAL,
				"--draft oracle: number %u, '%.*s', is not a "
				"probability from 0 to 1; try for example "
				"oracle:0.8, or oracle:0.9,0.8,0.7 for a "
				"probability by position",
				curve->n + 1, shown, word);
		curve->p[curve->n++] = p;
		word += len;
		if (!*word)
			return 0;
	}
}

static int check_word(const char *said, const char *word, struct err *e)
{
	return parse_curve(word, &(struct oracle_curve){ 0 }, e);
}

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	const struct drafting_options *o = site->options;
	struct oracle_curve curve;
	int ret = parse_curve(site->word, &curve, e);

	if (!ret)
		ret = drafter_oracle_open(out, site->text, site->n, &curve,
			o->seed, site->target->n_vocab, e);
	if (!ret && o->batch)
		out->batch = out->most = o->batch;
	if (!ret && site->session_opts->soc && drafting_as(o))
		drafter_oracle_price_as(out, site->session_opts->soc,
			drafting_as(o), site->session_opts->as_type, o->batch);
	return ret;
}

const struct draft_kind draft_kind_oracle = {
	.name = "oracle:",
	.shown = "oracle:P,...",
	.summary = "simulated drafts, right with probability P at each "
		   "position",
	.needs_text = true,
	.title = "an oracle: acceptance is simulated",
	.check = check_word,
	.open = open_kind,
};
