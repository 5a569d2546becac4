#include "host/method/revision.h"

#include "base/err.h"
#include "host/scheduler/denoising.h"
#include "host/scheduler/method.h"
#include "host/method/stages.h"
#include "host/model/model.h"
#include "host/session/refresh.h"
#include "host/session/rows.h"
#include "host/session/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const policies[] = { "none", "host", "drift", NULL };

/* clang-format off */
#define IN(field) OPT_IN(revision_options, field)
static const struct opt option_rows[] = {
	{ OPT_CHOICE, 0, "refresh", IN(policy), NULL,
		"method llada-npu: when the host recomputes keys and values of "
		"tokens that may still change but precede the positions of a "
		"pass ({}); none: never; host: in every pass; drift: when "
		"attention has changed (--refresh-drift)",
		.choices = policies },
	{ OPT_UINT, 0, "refresh-tokens", IN(tokens), "N",
		"method llada-npu: number of tokens whose keys and values the "
		"host recomputes (--refresh), the least probable first ({}; 0: "
		"all)",
		0, WIRE_MAX_ROWS },
	{ OPT_FLOAT, 0, "refresh-drift", IN(drift), "C",
		"with --refresh drift: attention has changed when the cosine "
		"of old and new attention weights is below C ({})", 0, 1 },
	{ OPT_FLAG, 0, "refresh-late", IN(late), NULL,
		"with --refresh: do not wait for the host's keys and values, "
		"but use them in the first pass after they arrive; the text "
		"then depends on timing" },
};
/* clang-format on */

const struct opt_table revision_table = OPT_TABLE_INIT(
	"diffusion", option_rows, revision_options, .tokens = 32, .drift = 0.9);

struct revision {
	const struct revision_options *o;
	struct session *session;
	struct refresh *refresh;
	bool by_block;
	bool running;
	/*
	 * The running refresh (recomputation on the host). row: its n rows.
	 * guessed: the n_guesses positions that get new guesses. predicted_by:
	 * for each of these positions, the index of the row that predicts it.
	 */
	struct row row[WIRE_MAX_ROWS];
	uint32_t n;
	uint32_t guessed[WIRE_MAX_ROWS], predicted_by[WIRE_MAX_ROWS], n_guesses;
	/* whether the refresh recomputes only the probe token (policy drift) */
	bool probing;
	/* The members from `probe` to `drifted` are for the policy drift. The
	 * probe token is the token to which the last recomputed row paid the
	 * most attention, if that token was recomputed, too; else the last
	 * recomputed token. */
	/* position of the probe token; 0 before the first probe */
	uint32_t probe;
	float *attention;
	/* attention weights of the probe token's row at an earlier refresh;
	 * stored in attention[] */
	struct attention_map before;
	uint32_t from_layer;
	bool drifted;
	float *logits; /* memory for n_vocab logits */
};

int revision_open(struct revision **out, const struct revision_options *o,
	const struct denoising *d, struct err *e)
{
	const struct refresh_opts opts = { .best_effort = o->late };
	struct session *s = d->session;
	const struct model *m = session_model(s);
	struct revision *r;
	int ret;

	*out = NULL;
	if (o->policy == REVISE_NONE)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(e, ENOMEM,
			"no memory for the revision of tokens by llada-npu");
	r->o = o;
	r->session = s;
	r->by_block = m->block_length > 0;
	r->drifted = true; /* the first refresh recomputes all positions */
	r->logits = malloc(m->n_vocab * sizeof(*r->logits));
	r->attention = malloc((size_t)m->n_layer * session_context(s) *
		sizeof(*r->attention));
	ret = r->logits && r->attention
		? refresh_open(&r->refresh, s, &opts, e)
		: err_set(e, ENOMEM,
			  "no memory for the revision of tokens by llada-npu");
	if (ret)
		revision_close(r);
	else
		*out = r;
	return ret;
}

void revision_close(struct revision *r)
{
	if (!r)
		return;
	refresh_close(r->refresh);
	free(r->logits);
	free(r->attention);
	free(r);
}

/* ---- choosing the positions to recompute --------------------------------- */

static bool needs_refresh(const struct place *p)
{
	return p->outside && (p->stale || p->stage == STAGE_VISIBLE);
}

/*
 * Add a row for position `at`, unless the last added row is already for this
 * position.
 */
static void add_row(struct revision *r, const struct denoising *d,
	const struct place *place, uint32_t first, uint32_t at, uint32_t end)
{
	if (r->n && r->row[r->n - 1].position == at)
		return;
	r->row[r->n] = (struct row){
		.token = at < first ? d->x[at] : place[at].token,
		.position = at,
		.sequence = d->sequence,
	};
	if (r->by_block)
		r->row[r->n].end = end;
	r->n++;
}

/* Add the rows for the token at position `at`: the row of this position, which
 * computes the token's keys and values, and the row that predicts the token.
 * Unless logits are shifted (d->shift), one row does both. */
static void add_token(struct revision *r, const struct denoising *d,
	const struct place *place, uint32_t first, uint32_t at)
{
	uint32_t length = session_model(r->session)->block_length, end = at + 1;

	if (length)
		end = first + ((at - first) / length + 1) * length;
	if (d->shift)
		add_row(r, d, place, first, at - 1,
			at - 1 < first || end - length == at ? at : end);
	r->guessed[r->n_guesses] = at;
	r->predicted_by[r->n_guesses++] = d->shift ? r->n - 1 : r->n;
	add_row(r, d, place, first, at, end);
}

static void choose(struct revision *r, const struct denoising *d,
	const struct place *place, uint32_t first, uint32_t from)
{
	/* Positions whose confidence is above `most` are left out. Without
	 * --refresh-tokens, `most` is above every confidence. */
	double most = r->o->tokens ? -1 : 2;

	r->n = r->n_guesses = 0;
	r->probing = r->o->policy == REVISE_DRIFT && !r->drifted;
	if (r->probing && r->probe >= first && r->probe < from) {
		add_token(r, d, place, first, r->probe);
		return;
	}
	r->probing = false;
	/* With --refresh-tokens n, find the n-th lowest confidence. */
	for (uint32_t n = 0; n < r->o->tokens; n++) {
		double lower = most;

		most = 2;
		for (uint32_t at = first; at < from; at++)
			if (needs_refresh(&place[at]) &&
				place[at].confidence > lower &&
				place[at].confidence < most)
				most = place[at].confidence;
	}
	for (uint32_t at = first; at < from && r->n + 2 <= WIRE_MAX_ROWS; at++)
		if (needs_refresh(&place[at]) && place[at].confidence <= most)
			add_token(r, d, place, first, at);
}

int revision_begin(struct revision *r, const struct denoising *d,
	struct place *place, uint32_t first, uint32_t from, struct err *e)
{
	struct rows rows;
	int ret;

	if (!r || r->running)
		return 0;
	for (uint32_t at = first; at < from; at++)
		place[at].outside |= !place[at].stale;
	choose(r, d, place, first, from);
	if (!r->n)
		return 0;
	rows = (struct rows){
		r->by_block ? VISIBILITY_BLOCK : VISIBILITY_WINDOW, r->n, r->row
	};
	ret = refresh_start(r->refresh, &rows, r->o->policy == REVISE_DRIFT, e);
	r->running = !ret;
	return ret;
}

/* ---- drift of attention -------------------------------------------------- */

/*
 * After a refresh of only the probe token, decide whether the next refresh
 * recomputes all positions. After a refresh of all positions, choose the next
 * probe token.
 */
static void look_for_drift(struct revision *r, uint32_t first)
{
	struct attention_map now = refresh_attention(r->refresh, r->n - 1);
	uint32_t row = 0;

	if (r->probing) {
		r->from_layer = attention_drift(&r->before, &now, r->o->drift);
		r->drifted = r->from_layer < now.layers;
		return;
	}
	r->drifted = false;
	r->probe = attention_most(&now, now.layers - 1);
	/* The probe token must be one of the recomputed tokens. If the most
	 * attended token is not one of them, take the last recomputed token. */
	while (row < r->n - 1 &&
		(r->probe < first || r->row[row].position != r->probe))
		row++;
	r->probe = r->row[row].position;
	/* Store the attention weights of the probe token's row. */
	r->before = refresh_attention(r->refresh, row);
	memcpy(r->attention, r->before.weight,
		(size_t)r->before.layers * r->before.length *
			sizeof(*r->attention));
	r->before.weight = r->attention;
}

/* ---- using the results --------------------------------------------------- */

int revision_end(struct revision *r, const struct denoising *d,
	struct place *place, const struct stages_rule *rule,
	struct method_stats *stats, struct err *e)
{
	struct stages_rule stays = *rule;
	int ret = 0;

	if (!r || !r->running || !refresh_finish(r->refresh, false))
		return 0;
	r->running = false;
	/* A refreshed position must not become a mask again, because no later
	 * window contains the position. */
	stays.fall = false;
	if (!r->probing) {
		stats->refreshed += r->n;
		ret = refresh_merge(r->refresh, NULL, r->n,
			r->o->policy == REVISE_DRIFT ? r->from_layer : 0, e);
	}
	for (uint32_t i = 0; i < r->n_guesses && !ret && !r->probing; i++) {
		struct place *p = &place[r->guessed[i]];
		struct guess g;
		unsigned change = 0;

		ret = refresh_logits(
			r->refresh, &r->predicted_by[i], 1, &r->logits, e);
		if (ret)
			break;
		guess_from(&d->guessing, r->logits, r->guessed[i], 0, &g);
		/* refresh_merge has written the new keys and values of this
		 * position to the cache */
		p->stale = false;
		if (p->stage == STAGE_VISIBLE)
			change = stages_update(p, &stays, &g);
		stats->revised += !!(change & CHANGE_REVISED);
	}
	if (!ret && r->o->policy == REVISE_DRIFT)
		look_for_drift(r, r->guessed[0]);
	return ret;
}
