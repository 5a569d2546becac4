#include "host/draft/drafter_calibrated.h"

#include "base/err.h"
#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/source.h"
#include "host/tree/tree.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* An anchor is a prompt position with the target's predictions of the next
 * token. The path is the sequence and the drafted tokens after it. The
 * probability of a guess (a candidate token) is averaged over the anchors that
 * match the last tokens of the path; if more than ANCHORS match, over the
 * ANCHORS that are nearest to the prompt's end. */
#define ANCHORS 64
/* number of lists of anchors; a token's list is its id modulo CHAINS */
#define CHAINS   4096
#define NO_TOKEN UINT32_MAX

struct anchor {
	int32_t token; /* the prompt's token at this position */
	/* 1 + the previous position in the same list of anchors; 0 for the
	 * first position of a list */
	uint32_t before;
	/* number of entries of next[]; 0 if no predictions are stored */
	uint32_t n;
	struct candidate next[CALIBRATED_SUCCESSORS];
};

struct calibrated {
	struct calibrated_options opts;
	struct anchor *anchor; /* [n] */
	uint32_t latest[CHAINS];
	size_t n, room;
	/* 1 + the index `at` of the previous call of wants() */
	size_t asked;
	/* whether memory ran out; the prompt then has no anchors */
	bool is_short;
	/* last tokens of the sequence, in reverse order */
	int32_t end[CALIBRATED_KEY];
	struct search_work work;
};

/* ---- reading a prompt ---------------------------------------------------- */

/*
 * Return whether to keep the predictions after token `at` of a prompt.
 * Predictions after the last token are not needed: the target samples the next
 * token there before the first draft. With a cached prefix, the first call for
 * a prompt does not have at == 0, so a new prompt is recognised by an `at` that
 * does not follow the previous call's `at`.
 */
static bool wants(void *arg, const int32_t *prompt, size_t n, size_t at)
{
	struct calibrated *c = arg;
	struct anchor *more;
	size_t same = 0;

	if (n != c->n || at != c->asked) {
		/* Keep the predictions stored for the common prefix of this
		 * prompt and the previous prompt: if tokens of the prefix are
		 * cached, the device does not compute them again, so it gives
		 * no new predictions for them. */
		while (same < n && same < c->n &&
			prompt[same] == c->anchor[same].token)
			same++;
		memset(c->latest, 0, sizeof(c->latest));
		if (n > c->room) {
			more = realloc(c->anchor, n * sizeof(*more));
			c->anchor = more ? more : c->anchor;
			c->room = more ? n : c->room;
		}
		c->is_short = n > c->room;
		c->n = c->is_short ? 0 : n;
		for (size_t i = 0; i < c->n; i++) {
			uint32_t *chain =
				&c->latest[(uint32_t)prompt[i] % CHAINS];

			if (i >= same)
				c->anchor[i].n = 0;
			c->anchor[i].token = prompt[i];
			c->anchor[i].before = *chain;
			*chain = (uint32_t)i + 1;
		}
	}
	c->asked = at + 1;
	return !c->is_short && at + 1 < n;
}

static void predicted(
	void *arg, size_t at, const struct candidate *likely, uint32_t n)
{
	struct calibrated *c = arg;
	struct anchor *a = &c->anchor[at];
	double sum = 0;

	if (c->is_short || at >= c->n)
		return;
	for (a->n = 0;
		a->n < n && a->n < c->opts.successors && sum < c->opts.share;
		a->n++) {
		a->next[a->n] = likely[a->n];
		sum += (double)likely[a->n].q;
	}
}

/* ---- the last tokens of a path ------------------------------------------- */

static int take(
	void *arg, const int32_t *text, size_t n, size_t same, struct err *e)
{
	struct calibrated *c = arg;

	for (size_t i = 0; i < CALIBRATED_KEY; i++)
		c->end[i] = i < n ? text[n - 1 - i] : -1;
	return 0;
}

static void root(void *arg, struct source_place *p)
{
	const struct calibrated *c = arg;

	for (unsigned i = 0; i < CALIBRATED_KEY; i++)
		p->at[i] = (uint32_t)c->end[i];
}

static void step(void *arg, struct source_place *p, int32_t token)
{
	memmove(p->at + 1, p->at, (CALIBRATED_KEY - 1) * sizeof(*p->at));
	p->at[0] = (uint32_t)token;
}

/* Returns the length, at most `most`, of the longest common suffix of two token
 * sequences: the path (the sequence and the drafted tokens after it), and the
 * prompt up to index `at` (inclusive). */
static uint32_t match(struct calibrated *c, size_t at,
	const struct source_place *p, uint32_t most)
{
	uint32_t n = 0;

	while (n < most && n <= at && p->at[n] != NO_TOKEN &&
		(uint32_t)c->anchor[at - n].token == p->at[n])
		n++;
	c->work.values += n + 1;
	return n;
}

/* ---- guesses ------------------------------------------------------------- */

struct sum {
	struct source_guess *guess;
	uint32_t n, most;
};

static void add(struct sum *s, const struct candidate *c)
{
	uint32_t i = 0;

	while (i < s->n && s->guess[i].token != c->token)
		i++;
	if (i == s->most)
		return;
	if (i == s->n)
		s->guess[s->n++] = (struct source_guess){ .token = c->token };
	s->guess[i].share += c->q;
}

/* Whether the predictions of the anchor at index `at` may continue a path of
 * `depth` drafted tokens. */
static bool may_go_on(const struct calibrated *c, uint32_t depth, size_t at)
{
	return c->anchor[at].n &&
		(depth || c->opts.anchors == CALIBRATED_CONTEXT ||
			c->n - at <= c->opts.request);
}

static uint32_t longest(
	struct calibrated *c, const struct source_place *p, uint32_t depth)
{
	uint32_t best = 0;

	for (uint32_t at = c->latest[p->at[0] % CHAINS]; at;
		at = c->anchor[at - 1].before) {
		uint32_t n = may_go_on(c, depth, at - 1)
			? match(c, at - 1, p, CALIBRATED_KEY)
			: 0;

		c->work.steps += 2;
		best = n > best ? n : best;
	}
	return best;
}

static uint32_t guesses(void *arg, const struct source_place *p, uint32_t depth,
	struct source_guess *out, uint32_t most)
{
	struct calibrated *c = arg;
	struct sum sum = { out, 0, most };
	uint32_t key, found = 0;

	if (!c->n || depth >= c->opts.depth)
		return 0;
	key = c->opts.key == CALIBRATED_SINGLE     ? 1
		: c->opts.key == CALIBRATED_BIGRAM ? 2
						   : longest(c, p, depth);
	for (uint32_t at = c->latest[p->at[0] % CHAINS];
		key && at && found < ANCHORS; at = c->anchor[at - 1].before) {
		const struct anchor *a = &c->anchor[at - 1];

		/* count two steps (each is a load whose address the previous
		 * load gave): reading the anchor, and reading its link to the
		 * next anchor of the list */
		c->work.steps += 2;
		if (!may_go_on(c, depth, at - 1) ||
			match(c, at - 1, p, key) < key)
			continue;
		for (uint32_t i = 0; i < a->n; i++)
			add(&sum, &a->next[i]);
		found++;
	}
	for (uint32_t i = 0; i < sum.n; i++) {
		out[i].share /= (float)found;
		out[i].match = key;
	}
	return sum.n;
}

/* ---- opening ------------------------------------------------------------- */

static void close_calibrated(void *arg)
{
	struct calibrated *c = arg;

	free(c->anchor);
	free(c);
}

int calibrated_open(struct source *out, const struct calibrated_options *opts,
	struct err *e)
{
	struct calibrated *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(e, ENOMEM, "no memory for --draft calibrated");
	c->opts = *opts;
	*out = (struct source){ .arg = c,
		.work = &c->work,
		.from = { SOURCE_CALIBRATED },
		.take = take,
		.root = root,
		.step = step,
		.guesses = guesses,
		.wants = wants,
		.predicted = predicted,
		.close = close_calibrated };
	return 0;
}

/* ---- the kind of drafter (draft_kind.h) ---------------------------------- */

static const char *const anchor_names[] = { "context", "request", NULL };
static const char *const key_names[] = { "single", "bigram", "longest", NULL };

/* clang-format off */
#define IN(field) OPT_IN(calibrated_options, field)
static const struct opt option_rows[] = {
	{ OPT_CHOICE, 0, "anchors", IN(anchors), NULL,
		"drafter calibrated: prompt tokens after which the target's "
		"predictions may begin a draft ({}); context: all; request: "
		"the last --request-tokens; later tokens of a draft are not "
		"limited",
		.choices = anchor_names, .noun = "predictions for the prompt "
			"(see --calibration)" },
	{ OPT_UINT, 0, "request-tokens", IN(request), "N",
		"drafter calibrated, with --anchors request: a draft may begin "
		"only with a prediction stored for one of the last N prompt "
		"tokens ({})",
		1, 1 << 20 },
	{ OPT_CHOICE, 0, "anchor-key", IN(key), NULL,
		"drafter calibrated: number of latest tokens (generated or "
		"drafted) to find in the prompt ({}); the target's predictions "
		"after them are drafted; single: one; bigram: two; longest: as "
		"many as occur there, at most four", .choices = key_names },
	{ OPT_UINT, 0, "successors", IN(successors), "K",
		"drafter calibrated: maximum number of next tokens that the "
		"target predicts for each prompt token, to be drafted later "
		"({})",
		1, CALIBRATED_SUCCESSORS },
	{ OPT_FLOAT, 0, "successor-share", IN(share), "P",
		"drafter calibrated: for each prompt token, store the target's "
		"likeliest next tokens until their probabilities add up to P "
		"({})", 0.01, 1 },
	{ OPT_UINT, 0, "calibrated-depth", IN(depth), "N",
		"drafter calibrated: maximum number of successive tokens in a "
		"draft ({})",
		1, 64 },
};
/* clang-format on */

static const struct opt_table table = OPT_TABLE_INIT("drafts", option_rows,
	calibrated_options, .key = CALIBRATED_LONGEST, .request = 64,
	.successors = 8, .share = 0.99, .depth = 8);

static uint32_t predictions(const struct opt_values *v)
{
	const struct calibrated_options *o = opt_values_of(v, &table);

	return o->successors;
}

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	struct source source;
	int ret = calibrated_open(
		&source, opt_values_of(site->values, &table), e);

	return ret ? ret : source_drafter_open(out, &source, e);
}

const struct draft_kind draft_kind_calibrated = {
	.name = "calibrated",
	.summary = "the target's own predictions for the prompt",
	.title = "the target's own predictions for the prompt",
	.reads_prompt = true,
	.predictions = predictions,
	.options = &table,
	.open = open_kind,
};
