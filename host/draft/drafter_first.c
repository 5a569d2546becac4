#include "host/draft/drafter_first.h"

#include "base/err.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Trees shed nodes and ours do not: so many times as large ours are. One that
 * is full has no candidates any more in this cycle. */
#define SPACIOUS 4

struct part {
	const struct drafter *drafter;
	struct tree *tree; /* its own; NULL: none yet */
	bool begun;        /* behind the text that is now */
	bool *asked;       /* [tree->capacity] nodes that it was to expand */
};

struct first {
	struct part *part; /* [n] */
	unsigned n;
	int32_t *text; /* [n_text] that a tree begins behind */
	size_t n_text, cap;
	/* Of an expansion, [capacity]: the nodes as one part knows them, which
	 * of them it is to expand, and those that have their candidates. */
	uint32_t capacity;
	int32_t *twin;
	uint32_t *list;
	bool *answered;
};

/* ---- room ---------------------------------------------------------------- */

static int no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "no memory for more than one drafter");
}

static int open_tree(struct part *p, const struct tree *like, struct err *e)
{
	uint32_t capacity = SPACIOUS * like->capacity;
	int ret;

	if (p->tree && p->tree->capacity == capacity && p->tree->k == like->k)
		return 0;
	tree_close(p->tree);
	free(p->asked);
	p->tree = NULL;
	p->asked = calloc(capacity, sizeof(*p->asked));
	if (!p->asked)
		return no_memory(e);
	ret = tree_open(&p->tree, capacity, like->k, e);
	if (ret)
		p->tree = NULL;
	return ret;
}

static int reserve(struct first *f, uint32_t capacity, struct err *e)
{
	if (capacity <= f->capacity)
		return 0;
	free(f->twin);
	free(f->list);
	free(f->answered);
	f->capacity = 0;
	f->twin = malloc(capacity * sizeof(*f->twin));
	f->list = malloc(capacity * sizeof(*f->list));
	f->answered = malloc(capacity * sizeof(*f->answered));
	if (!f->twin || !f->list || !f->answered)
		return no_memory(e);
	f->capacity = capacity;
	return 0;
}

static int remember(
	struct first *f, const int32_t *text, size_t n, struct err *e)
{
	if (n > f->cap) {
		size_t cap = 2 * n;
		int32_t *more = realloc(f->text, cap * sizeof(*more));

		if (!more)
			return no_memory(e);
		f->text = more;
		f->cap = cap;
	}
	memcpy(f->text, text, n * sizeof(*text));
	f->n_text = n;
	return 0;
}

/* ---- one of them --------------------------------------------------------- */

static int begin_part(
	struct first *f, struct part *p, const struct tree *like, struct err *e)
{
	int ret;

	if (p->begun)
		return 0;
	ret = open_tree(p, like, e);
	if (ret)
		return ret;
	memset(p->asked, 0, p->tree->capacity * sizeof(*p->asked));
	p->asked[0] = p->begun = true;
	return p->drafter->begin(
		p->drafter->arg, p->tree, f->text, f->n_text, e);
}

static int expand_part(
	struct part *p, const uint32_t *node, uint32_t n, struct err *e)
{
	for (uint32_t i = 0; i < n; i++)
		p->asked[node[i]] = true;
	return p->drafter->expand(p->drafter->arg, p->tree, node, n, e);
}

/*
 * The part's own node for one of `t`, in *twin; -1 where it knows nothing of
 * what lies above it, or has no room. All above it is expanded then.
 */
static int find_twin(struct first *f, struct part *p, const struct tree *t,
	uint32_t node, int32_t *twin, struct err *e)
{
	struct candidate c = { t->token[node], t->q[node] };
	int32_t above;
	int ret = begin_part(f, p, t, e);

	*twin = 0;
	if (ret || !node)
		return ret;
	ret = find_twin(f, p, t, (uint32_t)t->parent[node], &above, e);
	*twin = -1;
	if (!ret && above >= 0 && !p->asked[above])
		ret = expand_part(p, &(uint32_t){ (uint32_t)above }, 1, e);
	if (ret || above < 0 || !p->tree->n_candidates[above])
		return ret;
	*twin = tree_child(p->tree, (uint32_t)above, t->token[node]);
	if (*twin < 0 && p->tree->n < p->tree->capacity)
		*twin = (int32_t)tree_add(p->tree, (uint32_t)above, c);
	return 0;
}

/* Candidates for those of the nodes that have none yet. */
static int ask_part(struct first *f, struct part *p, struct tree *t,
	const uint32_t *node, uint32_t n, struct err *e)
{
	const struct candidate *from;
	uint32_t asked = 0;
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++) {
		f->twin[i] = -1;
		if (f->answered[i])
			continue;
		ret = find_twin(f, p, t, node[i], &f->twin[i], e);
		if (!ret && f->twin[i] >= 0 && !p->asked[f->twin[i]])
			f->list[asked++] = (uint32_t)f->twin[i];
	}
	if (!ret && asked)
		ret = expand_part(p, f->list, asked, e);
	for (uint32_t i = 0; i < n && !ret; i++) {
		uint32_t found =
			f->twin[i] < 0 ? 0 : p->tree->n_candidates[f->twin[i]];

		if (!found)
			continue;
		from = p->tree->candidate + (size_t)f->twin[i] * t->k;
		memcpy(t->candidate + (size_t)node[i] * t->k, from,
			found * sizeof(*from));
		t->n_candidates[node[i]] = found;
		f->answered[i] = true;
	}
	return ret;
}

/* ---- all of them --------------------------------------------------------- */

static int first_expand(void *arg, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	struct first *f = arg;
	int ret = reserve(f, t->capacity, e);

	assert(n <= t->capacity);
	for (uint32_t i = 0; i < n && !ret; i++) {
		t->n_candidates[node[i]] = 0;
		f->answered[i] = false;
	}
	for (unsigned i = 0; i < f->n && !ret; i++)
		ret = ask_part(f, &f->part[i], t, node, n, e);
	return ret;
}

static int first_begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	const uint32_t root = 0;
	struct first *f = arg;
	int ret = remember(f, text, n, e);

	tree_reset(t, text[n - 1]);
	for (unsigned i = 0; i < f->n; i++)
		f->part[i].begun = false;
	return ret ? ret : first_expand(f, t, &root, 1, e);
}

static void first_saw(void *arg, const int32_t *text, size_t n)
{
	const struct first *f = arg;

	for (unsigned i = 0; i < f->n; i++)
		if (f->part[i].drafter->saw)
			f->part[i].drafter->saw(
				f->part[i].drafter->arg, text, n);
}

static void first_price(void *arg, struct price *sum)
{
	const struct first *f = arg;

	for (unsigned i = 0; i < f->n; i++)
		if (f->part[i].drafter->price)
			f->part[i].drafter->price(f->part[i].drafter->arg, sum);
}

static void first_close(void *arg)
{
	struct first *f = arg;

	for (unsigned i = 0; i < f->n; i++) {
		tree_close(f->part[i].tree);
		free(f->part[i].asked);
	}
	free(f->part);
	free(f->text);
	free(f->twin);
	free(f->list);
	free(f->answered);
	free(f);
}

int drafter_first_open(struct drafter *out, const struct drafter *part,
	unsigned n, struct err *e)
{
	struct first *f = calloc(1, sizeof(*f));

	assert(n > 0);
	if (f)
		f->part = calloc(n, sizeof(*f->part));
	if (!f || !f->part) {
		free(f);
		return no_memory(e);
	}
	for (f->n = 0; f->n < n; f->n++)
		f->part[f->n].drafter = &part[f->n];
	*out = (struct drafter){ .arg = f,
		.begin = first_begin,
		.expand = first_expand,
		.batch = part[0].batch,
		.saw = first_saw,
		.price = first_price,
		.close = first_close };
	return 0;
}
