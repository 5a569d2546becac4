#include "host/text/list_grow.h"
#include "host/text/tokenizer_impl.h"

void merger_begin(struct merger *m)
{
	m->n_sym = 0;
	m->n_heap = 0;
}

void merger_release(struct merger *m)
{
	free(m->sym);
	free(m->heap);
	*m = (struct merger){ 0 };
}

int merger_add(struct merger *m, uint32_t at, uint32_t len, int32_t piece)
{
	int32_t i = (int32_t)m->n_sym;

	if (list_grow(&m->sym, m->n_sym, &m->cap_sym, sizeof(*m->sym)))
		return -ENOMEM;
	m->sym[i] = (struct symbol){ at, len, i - 1, -1, piece };
	if (i)
		m->sym[i - 1].next = i;
	m->n_sym++;
	return 0;
}

static bool before(const struct candidate *a, const struct candidate *b)
{
	if (a->order != b->order)
		return a->order < b->order;
	return a->left < b->left;
}

static struct candidate heap_pop(struct merger *m)
{
	struct candidate top = m->heap[0], last = m->heap[--m->n_heap];
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < m->n_heap; i = child) {
		if (child + 1 < m->n_heap &&
			before(&m->heap[child + 1], &m->heap[child]))
			child++;
		if (!before(&m->heap[child], &last))
			break;
		m->heap[i] = m->heap[child];
	}
	m->heap[i] = last;
	return top;
}

static int offer(struct merger *m, const struct tokenizer *t, const char *word,
	merge_pair_fn *pair, int32_t left, int32_t right)
{
	struct candidate c;
	size_t i;

	if (left < 0 || right < 0)
		return 0;
	if (!pair(t, word, &m->sym[left], &m->sym[right], &c))
		return 0;
	c.left = left;
	c.right = right;
	c.len = m->sym[left].len + m->sym[right].len;

	i = m->n_heap;
	if (list_grow(&m->heap, m->n_heap, &m->cap_heap, sizeof(*m->heap)))
		return -ENOMEM;
	m->n_heap++;
	for (; i && before(&c, &m->heap[(i - 1) / 2]); i = (i - 1) / 2)
		m->heap[i] = m->heap[(i - 1) / 2];
	m->heap[i] = c;
	return 0;
}

int merger_run(struct merger *m, const struct tokenizer *t, const char *word,
	merge_pair_fn *pair)
{
	int ret = 0;

	for (size_t i = 1; !ret && i < m->n_sym; i++)
		ret = offer(m, t, word, pair, (int32_t)i - 1, (int32_t)i);
	while (!ret && m->n_heap) {
		struct candidate c = heap_pop(m);
		struct symbol *l = &m->sym[c.left], *r = &m->sym[c.right];

		/*
		 * The candidate is stale if one of its symbols was merged since
		 * the candidate was found. Symbols only grow or vanish, so a
		 * different sum of lengths reveals this.
		 */
		if (!l->len || !r->len || l->len + r->len != c.len)
			continue;
		l->len = c.len;
		l->piece = c.piece;
		l->next = r->next;
		r->len = 0;
		if (l->next >= 0)
			m->sym[l->next].prev = c.left;
		ret = offer(m, t, word, pair, l->prev, c.left);
		if (!ret)
			ret = offer(m, t, word, pair, c.left, l->next);
	}
	return ret;
}
