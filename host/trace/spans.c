#include "host/trace/spans.h"

#include <errno.h>
#include <stdlib.h>

int spans_add(struct spans *s, uint64_t from, uint64_t to)
{
	if (to <= from)
		return 0;
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 64;
		struct span *more = reallocarray(s->span, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->span = more;
		s->room = room;
	}
	s->span[s->n++] = (struct span){ from, to };
	return 0;
}

static int by_beginning(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

void spans_join(struct spans *s)
{
	size_t n = 0;

	if (!s->n)
		return;
	qsort(s->span, s->n, sizeof(*s->span), by_beginning);
	for (size_t i = 1; i < s->n; i++) {
		struct span *last = &s->span[n];

		if (s->span[i].from > last->to)
			s->span[++n] = s->span[i];
		else if (s->span[i].to > last->to)
			last->to = s->span[i].to;
	}
	s->n = n + 1;
}

void spans_release(struct spans *s)
{
	free(s->span);
	*s = (struct spans){ 0 };
}

uint64_t spans_length(const struct spans *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += s->span[i].to - s->span[i].from;
	return sum;
}

uint64_t spans_common(const struct spans *a, const struct spans *b)
{
	size_t i = 0, k = 0;
	uint64_t sum = 0;

	while (i < a->n && k < b->n) {
		const struct span *x = &a->span[i], *y = &b->span[k];
		uint64_t from = x->from > y->from ? x->from : y->from;
		uint64_t to = x->to < y->to ? x->to : y->to;

		sum += to > from ? to - from : 0;
		if (x->to < y->to)
			i++;
		else
			k++;
	}
	return sum;
}

int spans_without(
	struct spans *out, const struct spans *whole, const struct spans *of)
{
	size_t k = 0;

	for (size_t i = 0; i < whole->n; i++) {
		uint64_t from = whole->span[i].from, to = whole->span[i].to;

		while (k < of->n && of->span[k].to <= from)
			k++;
		for (size_t j = k; j < of->n && of->span[j].from < to; j++) {
			if (spans_add(out, from, of->span[j].from))
				return -ENOMEM;
			if (of->span[j].to > from)
				from = of->span[j].to;
		}
		if (spans_add(out, from, to))
			return -ENOMEM;
	}
	return 0;
}
