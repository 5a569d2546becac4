/*
 * A minimal example of a drafter kind: this file and one row of the table of
 * kinds (drafter_echo_row.h). Only the build of tests/cli/echo.sh includes this
 * drafter. If the last token of a path equals the token two positions before
 * it, the drafter drafts the token between them. After other paths it has no
 * candidates.
 */
#include "base/err.h"
#include "host/draft/draft_kind.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tests/host/draft/echo/drafter_echo_row.h"

#include <errno.h>
#include <stdlib.h>

struct echo {
	/* last tokens of the text; -1 if the text is shorter */
	int32_t last[3];
};

/* Returns the token that is `back` tokens before the end of the path to `node`.
 */
static int32_t token_at(const struct echo *h, const struct tree *t,
	uint32_t node, uint32_t back)
{
	for (; back && node; back--)
		node = (uint32_t)t->parent[node];
	return node ? t->token[node] : h->last[2 - back];
}

static int echo_expand(void *arg, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	const struct echo *h = arg;

	for (uint32_t i = 0; i < n; i++) {
		struct candidate *c = t->candidate + (size_t)node[i] * t->k;
		int32_t end = token_at(h, t, node[i], 0);

		t->n_candidates[node[i]] = 0;
		if (end != token_at(h, t, node[i], 2) ||
			token_at(h, t, node[i], 1) < 0)
			continue;
		c->token = token_at(h, t, node[i], 1);
		c->q = 0.5f;
		t->n_candidates[node[i]] = 1;
	}
	return 0;
}

static int echo_begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	const uint32_t root = 0;
	struct echo *h = arg;

	for (size_t i = 0; i < 3; i++)
		h->last[2 - i] = i < n ? text[n - 1 - i] : -1;
	tree_reset(t, text[n - 1]);
	return echo_expand(h, t, &root, 1, e);
}

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	struct echo *h = calloc(1, sizeof(*h));

	if (!h)
		return err_set(e, ENOMEM, "no memory for an echo");
	*out = (struct drafter){ .arg = h,
		.begin = echo_begin,
		.expand = echo_expand,
		.batch = 1,
		.close = free };
	return 0;
}

const struct draft_kind draft_kind_echo = {
	.name = "echo",
	.summary = "guesses that what came two tokens before comes again",
	.title = "an echo",
	.open = open_kind,
};
