#include "host/draft/suffix_tree.h"

#include "base/err.h"
#include "tensor/soc/price_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOT 0u
#define NONE UINT32_MAX
/* Maximum number of nodes added by one token or by the end of a sequence: each
 * suffix of the live (growing) sequence can split a node and add a leaf. */
#define AT_ONCE    (2 * SUFFIX_DEPTH)
#define MAX_TOKENS ((size_t)1 << 30)
/* All children worth listing, with at least 1 / SUFFIX_RARE of the node's
 * count, are among the first WALK children. Proof: when a child moves to the
 * front, it has at least 1 / (2 * SUFFIX_RARE) of its parent's count. Let C be
 * the parent's count when a child worth listing was last counted. The child's
 * count is at most C and at least 1 / SUFFIX_RARE of the present count, so the
 * present count is at most SUFFIX_RARE * C. Each child that has moved ahead
 * since then has a count of at least C / (2 * SUFFIX_RARE). So these are at
 * most 2 * SUFFIX_RARE * SUFFIX_RARE = WALK - 1 children. */
#define WALK (2 * SUFFIX_RARE * SUFFIX_RARE + 1)

struct node {
	/* index in `token` of the first token of the node's label */
	uint32_t text;
	uint32_t parent;
	/* number of suffixes, of all sequences, whose path from the root
	 * reaches the label */
	uint32_t count;
	/* first child, in a ring of siblings; NONE for a leaf */
	uint32_t child;
	uint32_t next, prev; /* siblings, in a ring */
	/* Length of the label. The label of a leaf of the live sequence ends at
	 * the current end of the sequence, so the label is shorter than
	 * `length` until the sequence has grown. */
	uint8_t length;
	/* number of tokens from the root to the start of the label */
	uint8_t depth;
};

/* A suffix of the live sequence, which still grows. */
struct live {
	struct suffix_place place;
	/* whether the suffix occurs nowhere else; place.node is then the
	 * suffix's leaf */
	bool leaf;
};

struct suffix_tree {
	struct search_work *work;
	/* [n] tokens of all sequences; the last sequence is the live sequence,
	 * which still grows */
	int32_t *token;
	size_t n, room;
	size_t begin; /* index in `token` of the start of the live sequence */
	/* Index in `token`: suffixes of the live sequence that start at this
	 * index or later also occur elsewhere. */
	size_t repeated;
	/* the suffixes of the live sequence of at most SUFFIX_DEPTH tokens. The
	 * suffix whose first token is token[i] is at index i % SUFFIX_DEPTH. */
	struct live live[SUFFIX_DEPTH];
	struct node *node; /* [n_nodes] */
	uint32_t n_nodes, node_room;
	/* [mask + 1] hash table of nodes, by parent and first token */
	uint32_t *slot;
	uint32_t mask;
};

/* ---- children by token --------------------------------------------------- */

/* Returns the slot of the parent's child with this first token, or the empty
 * slot in which the child can be stored. */
static uint32_t find_slot(
	const struct suffix_tree *t, uint32_t parent, int32_t token)
{
	uint64_t h = ((uint64_t)parent << 32 | (uint32_t)token) *
		0x9e3779b97f4a7c15u;
	uint32_t s = (uint32_t)(h >> 32) & t->mask;

	/* count three steps (each is a load whose address the previous load
	 * gave): reading the slot, the node, and the first token of its
	 * label */
	t->work->steps += 3;
	while (t->slot[s] != NONE &&
		(t->node[t->slot[s]].parent != parent ||
			t->token[t->node[t->slot[s]].text] != token))
		s = (s + 1) & t->mask;
	return s;
}

static uint32_t find_child(
	const struct suffix_tree *t, uint32_t parent, int32_t token)
{
	return t->slot[find_slot(t, parent, token)];
}

static void put_slot(struct suffix_tree *t, uint32_t node)
{
	const struct node *n = &t->node[node];

	t->slot[find_slot(t, n->parent, t->token[n->text])] = node;
}

/* ---- memory -------------------------------------------------------------- */

/* Make room for AT_ONCE more nodes. At most three quarters of the hash slots
 * are filled. */
static int reserve_nodes(struct suffix_tree *t, struct err *e)
{
	uint32_t need = t->n_nodes + AT_ONCE;

	if (need > t->node_room) {
		uint32_t room = need + t->node_room / 4;
		struct node *more = realloc(t->node, room * sizeof(*more));

		if (!more)
			return err_set(
				e, ENOMEM, "no memory for a suffix tree");
		t->node = more;
		t->node_room = room;
	}
	while (!t->slot || need > (t->mask + 1) / 4 * 3) {
		uint32_t slots = t->slot ? 2 * (t->mask + 1) : 4 * AT_ONCE;
		uint32_t *more = malloc(slots * sizeof(*more));

		if (!more)
			return err_set(
				e, ENOMEM, "no memory for a suffix tree");
		memset(more, 0xff, slots * sizeof(*more));
		free(t->slot);
		t->slot = more;
		t->mask = slots - 1;
		for (uint32_t i = 1; i < t->n_nodes; i++)
			put_slot(t, i);
	}
	return 0;
}

/* ---- siblings ------------------------------------------------------------ */

static void link_last(struct suffix_tree *t, uint32_t parent, uint32_t node)
{
	uint32_t first = t->node[parent].child, last;

	if (first == NONE) {
		t->node[parent].child = node;
		t->node[node].next = t->node[node].prev = node;
		return;
	}
	last = t->node[first].prev;
	t->node[node].prev = last;
	t->node[node].next = first;
	t->node[last].next = t->node[first].prev = node;
}

/*
 * Move a child to the front of its ring if its count is at least 1 / (2 *
 * SUFFIX_RARE) of p->count. suffix_tree_next compares a child's count with the
 * parent's count minus the live suffixes that end within the parent's label,
 * and lists the child if its count is at least 1 / SUFFIX_RARE of this
 * difference; p->count includes these suffixes. As long as they are at most
 * half of p->count, every child that is listed passes this test. If they are
 * more than half, p->count is less than 2 * SUFFIX_DEPTH, because at most
 * SUFFIX_DEPTH live suffixes end in labels. The parent then has fewer than WALK
 * children, and their order does not matter.
 */
static void advance(struct suffix_tree *t, uint32_t node)
{
	const struct node *n = &t->node[node];
	struct node *p = &t->node[n->parent];

	if (p->child == node || (uint64_t)n->count * 2 * SUFFIX_RARE < p->count)
		return;
	t->node[n->prev].next = n->next;
	t->node[n->next].prev = n->prev;
	link_last(t, n->parent, node);
	p->child = node;
}

/* ---- nodes --------------------------------------------------------------- */

static uint32_t label(const struct suffix_tree *t, uint32_t node)
{
	const struct node *n = &t->node[node];
	size_t come = t->n - n->text;

	return come < n->length ? (uint32_t)come : n->length;
}

static int32_t label_token(const struct suffix_tree *t, struct suffix_place p)
{
	t->work->steps += 2;
	return t->token[t->node[p.node].text + p.at];
}

static const struct live *live_at(const struct suffix_tree *t, size_t begin)
{
	return &t->live[begin % SUFFIX_DEPTH];
}

/* Number of suffixes of the live sequence that end in a node's label before the
 * label's token `at`. */
static uint32_t ending(const struct suffix_tree *t, uint32_t node, uint32_t at)
{
	uint32_t n = 0;

	t->work->values += t->n - t->repeated;
	for (size_t i = t->repeated; i < t->n; i++) {
		const struct live *l = live_at(t, i);

		n += l->place.node == node && l->place.at < at;
	}
	return n;
}

/* Insert a node `upper` between `node` and its parent. `upper` gets the first
 * `at` tokens of the node's label, and the suffixes of the live sequence that
 * end within these tokens. Returns `upper`. */
static uint32_t split(struct suffix_tree *t, uint32_t node, uint32_t at)
{
	uint32_t upper = t->n_nodes++;
	struct node *n = &t->node[node], *u = &t->node[upper];

	*u = *n;
	u->length = (uint8_t)at;
	u->child = NONE;
	t->slot[find_slot(t, n->parent, t->token[n->text])] = upper;
	if (n->next == node)
		u->next = u->prev = upper;
	t->node[u->next].prev = t->node[u->prev].next = upper;
	if (t->node[u->parent].child == node)
		t->node[u->parent].child = upper;
	n->count -= ending(t, node, at + 1);
	n->parent = upper;
	n->text += at;
	n->length = (uint8_t)(n->length - at);
	n->depth = (uint8_t)(n->depth + at);
	put_slot(t, node);
	link_last(t, upper, node);
	for (size_t i = t->repeated; i < t->n; i++) {
		struct suffix_place *p = &t->live[i % SUFFIX_DEPTH].place;

		if (p->node != node)
			continue;
		if (p->at <= at)
			p->node = upper;
		else
			p->at -= at;
	}
	return upper;
}

/* ---- growing ------------------------------------------------------------- */

static void become_leaf(struct suffix_tree *t, struct live *l, uint32_t parent)
{
	uint32_t node = t->n_nodes++;
	const struct node *p = &t->node[parent];
	uint32_t depth = p->depth + p->length;

	t->node[node] = (struct node){ .text = (uint32_t)(t->n - 1),
		.parent = parent,
		.count = 1,
		.child = NONE,
		.length = (uint8_t)(SUFFIX_DEPTH - depth),
		.depth = (uint8_t)depth };
	put_slot(t, node);
	link_last(t, parent, node);
	advance(t, node);
	l->place = (struct suffix_place){ node, 0 };
	l->leaf = true;
}

/* Extend a suffix of the live sequence by the sequence's newest token. */
static void go_on(struct suffix_tree *t, struct live *l)
{
	struct suffix_place *p = &l->place;
	int32_t token = t->token[t->n - 1];
	uint32_t child;

	if (p->at < label(t, p->node) && label_token(t, *p) == token) {
		p->at++;
		return;
	}
	if (p->at < label(t, p->node)) {
		become_leaf(t, l, split(t, p->node, p->at));
		return;
	}
	child = find_child(t, p->node, token);
	if (child == NONE) {
		become_leaf(t, l, p->node);
		return;
	}
	t->node[child].count++;
	advance(t, child);
	*p = (struct suffix_place){ child, 1 };
}

int suffix_tree_append(
	struct suffix_tree *t, const int32_t *token, size_t n, struct err *e)
{
	int ret = 0;

	if (n > MAX_TOKENS - t->n)
		return err_set(e, EFBIG,
			"a suffix tree holds at most 2^30 tokens; "
			"try a smaller history");
	if (t->n + n > t->room) {
		size_t room = t->n + n + t->n / 4;
		int32_t *more = realloc(t->token, room * sizeof(*more));

		if (!more)
			return err_set(
				e, ENOMEM, "no memory for a suffix tree");
		t->token = more;
		t->room = room;
	}
	for (size_t k = 0; k < n && !(ret = reserve_nodes(t, e)); k++) {
		size_t first =
			t->n + 1 > SUFFIX_DEPTH ? t->n + 1 - SUFFIX_DEPTH : 0;

		if (t->repeated < first)
			t->repeated = first;
		t->live[t->n % SUFFIX_DEPTH] = (struct live){ 0 };
		t->node[ROOT].count++;
		t->token[t->n++] = token[k];
		/* Process longer suffixes first: if a suffix occurs elsewhere,
		 * so do all shorter suffixes, so longer suffixes become leaves
		 * earlier. */
		for (size_t i = t->repeated; i < t->n; i++) {
			struct live *l = &t->live[i % SUFFIX_DEPTH];

			go_on(t, l);
			if (l->leaf)
				t->repeated = i + 1;
		}
	}
	return ret;
}

/* Split every label within which a suffix ends, so that each suffix of the
 * ended sequence is counted at a node. Leaves of the ended sequence do not grow
 * any further. */
int suffix_tree_end(struct suffix_tree *t, struct err *e)
{
	size_t first = t->n > SUFFIX_DEPTH ? t->n - SUFFIX_DEPTH : 0;
	int ret = reserve_nodes(t, e);

	if (ret)
		return ret;
	for (size_t i = first > t->begin ? first : t->begin; i < t->n; i++) {
		const struct live *l = live_at(t, i);
		struct suffix_place p = l->place;

		if (l->leaf)
			t->node[p.node].length = (uint8_t)label(t, p.node);
		else if (p.at < label(t, p.node))
			split(t, p.node, p.at);
	}
	t->begin = t->repeated = t->n;
	return 0;
}

/* ---- reading ------------------------------------------------------------- */

bool suffix_tree_step(
	const struct suffix_tree *t, struct suffix_place *p, int32_t token)
{
	uint32_t child;

	if (p->at < label(t, p->node)) {
		if (label_token(t, *p) != token)
			return false;
		p->at++;
		return true;
	}
	child = find_child(t, p->node, token);
	if (child == NONE)
		return false;
	*p = (struct suffix_place){ child, 1 };
	return true;
}

uint32_t suffix_tree_count(
	const struct suffix_tree *t, const struct suffix_place *p)
{
	const struct node *n = &t->node[p->node];
	/* subtract one occurrence if a suffix of the live sequence that occurs
	 * nowhere else ends here */
	bool leaf_ends = t->begin < t->n && n->text + p->at == t->n;

	return n->count - leaf_ends - ending(t, p->node, p->at + 1);
}

/* List those children of a node whose count is at least 1 / SUFFIX_RARE of
 * `count`, the node's own count without the suffixes that end in its label.
 * Children are listed by descending count, and those with equal counts by
 * ascending token id. `left` is at least the total count of the children not
 * yet visited. */
static uint32_t children(const struct suffix_tree *t, uint32_t node,
	uint32_t count, struct suffix_next *out)
{
	uint32_t child = t->node[node].child, n = 0;
	uint64_t left = count;

	for (unsigned i = 0; i < WALK; i++) {
		const struct node *c = &t->node[child];
		int32_t token = t->token[c->text];

		t->work->steps++;
		if ((uint64_t)c->count * SUFFIX_RARE >= count) {
			uint32_t at = n++;

			for (; at &&
				(out[at - 1].count < c->count ||
					(out[at - 1].count == c->count &&
						out[at - 1].token > token));
				at--)
				out[at] = out[at - 1];
			out[at] = (struct suffix_next){ token, c->count };
		}
		left -= c->count;
		child = c->next;
		if (child == t->node[node].child || left * SUFFIX_RARE < count)
			break;
	}
	return n;
}

uint32_t suffix_tree_next(const struct suffix_tree *t,
	const struct suffix_place *p, struct suffix_next out[SUFFIX_RARE])
{
	uint32_t count = suffix_tree_count(t, p);

	if (p->at == label(t, p->node))
		return t->node[p->node].child == NONE
			? 0
			: children(t, p->node, count, out);
	if (!count)
		return 0;
	out[0] = (struct suffix_next){ label_token(t, *p), count };
	return 1;
}

/* ---- suffixes of a sequence ---------------------------------------------- */

void suffix_tree_follow(
	const struct suffix_tree *t, struct suffix_matches *m, int32_t token)
{
	struct suffix_place above = { 0 };
	uint32_t n = 0;

	for (uint32_t i = 0; i <= m->n && i < SUFFIX_DEPTH; i++) {
		struct suffix_place p = above;

		above = m->at[i];
		if (!suffix_tree_step(t, &p, token))
			break;
		m->at[n++] = p;
	}
	m->n = n;
}

void suffix_tree_live(const struct suffix_tree *t, struct suffix_matches *out)
{
	out->n = 0;
	for (size_t i = t->n; i-- > t->repeated;)
		if (t->n - i < SUFFIX_DEPTH)
			out->at[out->n++] = live_at(t, i)->place;
}

/* ---- checking ------------------------------------------------------------ */

/* Each check_* function returns NULL, or a description of the error in the
 * node. */
static const char *check_links(const struct suffix_tree *t, uint32_t node)
{
	const struct node *n = &t->node[node];
	const struct node *p = &t->node[n->parent];

	if (n->parent >= t->n_nodes || n->next >= t->n_nodes ||
		n->prev >= t->n_nodes)
		return "a link to a node that does not exist";
	if (t->node[n->next].prev != node || t->node[n->prev].next != node ||
		t->node[n->next].parent != n->parent)
		return "not in the ring of its siblings";
	if (find_child(t, n->parent, t->token[n->text]) != node)
		return "not found by its token";
	if (!label(t, node) || n->depth != p->depth + p->length ||
		n->depth + n->length > SUFFIX_DEPTH)
		return "an impossible length or depth";
	return NULL;
}

static const char *check_counts(const struct suffix_tree *t, uint32_t node)
{
	const struct node *n = &t->node[node];
	uint32_t child = n->child, sum = 0, children = 0;

	while (child != NONE) {
		children++;
		sum += t->node[child].count;
		child = t->node[child].next;
		if (child == n->child)
			break;
	}
	if (sum + ending(t, node, n->length) > n->count)
		return "the counts of its children exceed its own";
	if (node && children == 1 && sum == n->count)
		return "not merged with its only child";
	return NULL;
}

static const char *check_live(
	const struct suffix_tree *t, size_t begin, uint32_t *node)
{
	const struct live *l = live_at(t, begin);
	struct suffix_place p = { 0 };
	bool found = true;

	for (size_t i = begin; i < t->n && found; i++)
		found = suffix_tree_step(t, &p, t->token[i]);
	*node = p.node;
	if (!found)
		return "no child for the rest of a live suffix";
	if (l->leaf != (begin < t->repeated) || p.node != l->place.node ||
		(!l->leaf && p.at != l->place.at))
		return "a live suffix recorded at another place";
	return NULL;
}

int suffix_tree_check(const struct suffix_tree *t, struct err *e)
{
	size_t first = t->n > SUFFIX_DEPTH ? t->n - SUFFIX_DEPTH : 0;
	const char *why = NULL;
	uint32_t node = ROOT;

	if (t->node[ROOT].count != t->n)
		why = "does not count all tokens";
	for (uint32_t i = 1; i < t->n_nodes && !why; i++)
		why = check_links(t, node = i);
	for (uint32_t i = 0; i < t->n_nodes && !why; i++)
		why = check_counts(t, node = i);
	if (first < t->begin)
		first = t->begin;
	for (size_t i = first; i < t->n && !why; i++)
		why = check_live(t, i, &node);
	return why ? err_set(e, EPROTO, "node %u: %s", node, why) : 0;
}

/* ---- opening ------------------------------------------------------------- */

void suffix_tree_clear(struct suffix_tree *t)
{
	t->n = t->begin = t->repeated = 0;
	t->n_nodes = 1;
	t->node[ROOT] = (struct node){ .parent = NONE, .child = NONE };
	memset(t->slot, 0xff, ((size_t)t->mask + 1) * sizeof(*t->slot));
}

int suffix_tree_open(
	struct suffix_tree **out, struct search_work *work, struct err *e)
{
	struct suffix_tree *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return err_set(e, ENOMEM, "no memory for a suffix tree");
	t->work = work;
	ret = reserve_nodes(t, e);
	if (ret) {
		suffix_tree_close(t);
		return ret;
	}
	suffix_tree_clear(t);
	*out = t;
	return 0;
}

void suffix_tree_set_work(struct suffix_tree *t, struct search_work *work)
{
	t->work = work;
}

void suffix_tree_close(struct suffix_tree *t)
{
	if (!t)
		return;
	free(t->token);
	free(t->node);
	free(t->slot);
	free(t);
}

size_t suffix_tree_tokens(const struct suffix_tree *t)
{
	return t->n;
}
