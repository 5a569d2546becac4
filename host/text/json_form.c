#include "host/text/json_form.h"

#include "base/err.h"
#include "host/text/list_grow.h"
#include "host/text/token_trie.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(JSON_TOKEN_BYTES == TOKEN_BYTES,
	"the automaton must know the longest token");

/* A growing list. */
struct list {
	uint32_t *at;
	uint32_t n;
	size_t cap;
};

/*
 * The tokens that may follow at a cell (a position within a JSON value,
 * json_machine.h), as far as this value alone decides. ids: allowed tokens that
 * end within the value or together with it. ends: nodes of the token trie whose
 * bytes end the value; the enclosing values decide which longer tokens, below
 * such a node, are allowed.
 */
struct within {
	struct list ids, ends;
	/* one bit per token of the vocabulary, used instead of `ids` if many
	 * tokens are allowed */
	uint64_t *set;
	bool known;
};

struct json_form {
	struct json_nodes *nodes;
	const struct token_trie *trie;
	struct json_machine machine;
	/* [n_within] indexed by a cell without its enclosing cells (a result of
	 * json_alone) */
	struct within *within;
	uint32_t n_within;
	/* tokens that end the value of the cell after_cell and then continue
	 * the enclosing value */
	struct list after;
	/* cell for which `after` was computed; JSON_FLOOR if `after` was not
	 * computed yet */
	uint32_t after_cell;
	/* [TOKEN_BYTES + 1] set of possible cells (front) at each depth of the
	 * trie */
	struct json_front *front;
	float *row;
	uint32_t n_row;
	struct json_tags tags;
	bool failed;
};

static void add(struct json_form *f, struct list *l, uint32_t value)
{
	if (list_grow(&l->at, l->n, &l->cap, sizeof(*l->at)))
		f->failed = true;
	else
		l->at[l->n++] = value;
}

/*
 * Walk the trie nodes `from` to `to` - 1. f->front must be set at the depth of
 * the parent of these nodes. Adds to `ids` the tokens after which the text is
 * still valid. Adds to `ends` the nodes at which a value that is examined
 * without its enclosing values has ended; how the text continues there depends
 * on the enclosing values.
 */
static void walk(struct json_form *f, uint32_t from, uint32_t to,
	struct list *ids, struct list *ends)
{
	while (from < to) {
		const struct trie_node *n = &f->trie->node[from];
		struct json_front *here = &f->front[n->depth];

		json_step(&f->machine, here - 1, n->byte, here);
		for (uint32_t i = 0; (here->n || here->left) && i < n->n; i++)
			add(f, ids, (uint32_t)f->trie->id[n->first + i]);
		if (here->left)
			add(f, ends, from);
		from = here->n ? from + 1 : n->skip;
	}
}

static const struct within *learn_within(struct json_form *f, uint32_t cell)
{
	uint32_t alone = json_alone(&f->machine, cell);
	struct list ids = { 0 }, ends = { 0 };
	bool free_text = json_is_free(&f->machine, cell);
	struct within *w;

	if (alone >= f->n_within) {
		uint32_t n = f->machine.cap;

		w = reallocarray(f->within, n, sizeof(*w));
		if (!w) {
			f->failed = true;
			return NULL;
		}
		memset(w + f->n_within, 0, (n - f->n_within) * sizeof(*w));
		f->within = w;
		f->n_within = n;
	}
	w = &f->within[alone];
	if (w->known)
		return w;
	f->front[0] = (struct json_front){ .cell = { alone }, .n = 1 };
	walk(f, 0, f->trie->n_nodes, &ids, &ends);
	*w = (struct within){ .ids = ids, .ends = ends, .known = true };
	/* If many tokens are allowed, as within a string, use a bit set, with
	 * which the logits of 64 allowed tokens are copied at once. */
	if (!free_text && ids.n < f->trie->n_vocab / 32)
		return w;
	w->set = calloc(f->trie->n_vocab / 64 + 1, sizeof(*w->set));
	if (!w->set) {
		f->failed = true;
		return w;
	}
	for (uint32_t i = 0; i < ids.n; i++)
		w->set[ids.at[i] / 64] |= 1ull << ids.at[i] % 64;
	for (uint32_t i = 0; free_text && i < f->trie->n_vocab; i++)
		if (f->trie->at[i] == f->trie->at[i + 1])
			w->set[i / 64] |= 1ull << i % 64;
	free(ids.at);
	w->ids = (struct list){ 0 };
	return w;
}

/* Collect the tokens that end the value of a cell and then continue the
 * enclosing value. */
static void learn_after(
	struct json_form *f, uint32_t cell, const struct within *w)
{
	if (f->after_cell == cell)
		return;
	f->after.n = 0;
	f->after_cell = cell;
	for (uint32_t i = 0; i < w->ends.n; i++) {
		uint32_t at = w->ends.at[i];
		const struct trie_node *n = &f->trie->node[at];

		if (n->skip == at + 1)
			continue;
		json_after(&f->machine, cell, &f->front[n->depth]);
		walk(f, at + 1, n->skip, &f->after, NULL);
	}
}

static void allow(float *row, const float *logits, const struct list *ids)
{
	for (uint32_t i = 0; i < ids->n; i++)
		row[ids->at[i]] = logits[ids->at[i]];
}

static void allow_set(
	const struct json_form *f, const float *logits, const uint64_t *set)
{
	uint32_t words = f->trie->n_vocab / 64 + 1;

	for (uint32_t i = 0; i < words; i++) {
		if (set[i] == UINT64_MAX) {
			memcpy(f->row + 64ul * i, logits + 64ul * i,
				64 * sizeof(*logits));
			continue;
		}
		for (uint64_t left = set[i]; left; left &= left - 1) {
			uint32_t id = 64 * i + (uint32_t)__builtin_ctzll(left);

			f->row[id] = logits[id];
		}
	}
}

static bool step_bytes(struct json_form *f, struct json_front *place,
	const char *bytes, size_t len)
{
	struct json_front next;

	for (size_t i = 0; place->n && i < len; i++) {
		json_step(&f->machine, place, (unsigned char)bytes[i], &next);
		*place = next;
	}
	return place->n && !f->machine.failed;
}

const float *json_form_mask(struct json_form *f, const struct json_front *place,
	const float *logits, uint32_t n)
{
	if (f->n_row < n) {
		free(f->row);
		f->row = malloc(n * sizeof(*f->row));
		f->n_row = f->row ? n : 0;
	}
	if (!f->row)
		return NULL;
	for (uint32_t i = 0; i < n; i++)
		f->row[i] = -INFINITY;
	for (unsigned i = 0; i < place->n; i++) {
		const struct within *w = learn_within(f, place->cell[i]);

		if (!w)
			return NULL;
		if (w->set)
			allow_set(f, logits, w->set);
		allow(f->row, logits, &w->ids);
		if (w->ends.n) {
			learn_after(f, place->cell[i], w);
			allow(f->row, logits, &f->after);
		}
	}
	for (unsigned i = 0; i < f->tags.n; i++) {
		struct json_front after = *place;
		const char *text = f->tags.text[i];

		if (step_bytes(f, &after, text, strlen(text)))
			f->row[f->tags.id[i]] = logits[f->tags.id[i]];
	}
	if (json_is_whole(&f->machine, place))
		for (uint32_t i = 0; i < f->trie->n_end; i++)
			f->row[f->trie->end[i]] = logits[f->trie->end[i]];
	return f->failed || f->machine.failed ? NULL : f->row;
}

bool json_form_take(struct json_form *f, struct json_front *place, int32_t id)
{
	const struct token_trie *t = f->trie;
	bool free_text = place->n && json_is_free(&f->machine, place->cell[0]);

	for (unsigned i = 0; i < f->tags.n; i++)
		if (f->tags.id[i] == id)
			return step_bytes(f, place, f->tags.text[i],
				strlen(f->tags.text[i]));
	if (id >= 0 && (uint32_t)id < t->n_vocab && t->at[id] < t->at[id + 1])
		return step_bytes(f, place, t->bytes + t->at[id],
			t->at[id + 1] - t->at[id]);
	if (!free_text || id < 0)
		place->n = 0;
	return place->n;
}

struct json_machine *json_form_machine(struct json_form *f)
{
	return &f->machine;
}

int json_form_open(struct json_form **out, const char *schema,
	const struct token_trie *trie, struct err *e)
{
	struct json_nodes *nodes;
	int ret = json_nodes_open(&nodes, schema, e);

	return ret ? ret : json_form_open_nodes(out, nodes, NULL, trie, e);
}

int json_form_open_nodes(struct json_form **out, struct json_nodes *nodes,
	const struct json_tags *tags, const struct token_trie *trie,
	struct err *e)
{
	struct json_form *f = calloc(1, sizeof(*f));
	int ret = 0;

	if (!f) {
		json_nodes_close(nodes);
		return err_set(e, ENOMEM, "no memory to apply the JSON Schema");
	}
	f->nodes = nodes;
	if (tags)
		f->tags = *tags;
	f->trie = trie;
	f->after_cell = JSON_FLOOR;
	/* Require that each byte from 0x20 to 0xbf, except 0x7f, is a token by
	 * itself. Then every text can be continued. */
	for (unsigned i = ' '; i < 0xc0 && !ret; i++)
		if (i != 0x7f && !trie->alone[i])
			ret = err_set(e, EINVAL,
				"the vocabulary has no token for byte 0x%02x "
				"alone, so not every JSON text can be written",
				i);
	f->front = calloc(TOKEN_BYTES + 1, sizeof(*f->front));
	if (!ret && (!f->front || json_machine_init(&f->machine, nodes)))
		ret = err_set(e, ENOMEM, "no memory to apply the JSON Schema");
	if (ret)
		json_form_close(f);
	else
		*out = f;
	return ret;
}

void json_form_close(struct json_form *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->n_within; i++) {
		free(f->within[i].ids.at);
		free(f->within[i].ends.at);
		free(f->within[i].set);
	}
	free(f->within);
	free(f->after.at);
	free(f->front);
	free(f->row);
	json_machine_release(&f->machine);
	json_nodes_close(f->nodes);
	free(f);
}
