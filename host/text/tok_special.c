#include "host/text/tokenizer_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int special_compare(const void *pa, const void *pb)
{
	const struct special *a = pa, *b = pb;
	int c = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);

	return c ? c : (a->len > b->len) - (a->len < b->len);
}

static bool wanted(const struct tokenizer *t, uint32_t id, bool special)
{
	if (!t->pieces.span[id].len)
		return false;
	if (t->type[id] == TOK_USER)
		return true;
	return special &&
		(t->type[id] == TOK_CONTROL || t->type[id] == TOK_UNKNOWN);
}

static int specials_collect(
	struct specials *s, const struct tokenizer *t, bool special)
{
	uint32_t n = 0;

	for (uint32_t id = 0; id < t->n_vocab; id++)
		n += wanted(t, id, special);
	s->at = malloc((n + 1) * sizeof(*s->at));
	if (!s->at)
		return -ENOMEM;
	n = 0;
	for (uint32_t id = 0; id < t->n_vocab; id++)
		if (wanted(t, id, special)) {
			struct gguf_str text =
				pieces_text(&t->pieces, (int32_t)id);

			s->at[n].text = text.data;
			s->at[n].len = (uint32_t)text.len;
			s->at[n++].id = (int32_t)id;
		}
	qsort(s->at, n, sizeof(*s->at), special_compare);
	for (uint32_t i = 0, c = 0; c <= 256; c++) {
		while (i < n && (unsigned char)s->at[i].text[0] < c)
			i++;
		s->first[c] = i;
	}
	return 0;
}

int specials_init(struct tokenizer *t)
{
	int ret = specials_collect(&t->user, t, false);

	return ret ? ret : specials_collect(&t->special, t, true);
}

void specials_release(struct specials *s)
{
	free(s->at);
	s->at = NULL;
}

/* First index in [lo, hi) whose text has a byte >= c at index `depth`. All
 * texts in the range have more than `depth` bytes. */
static uint32_t lower_bound(const struct specials *s, uint32_t lo, uint32_t hi,
	uint32_t depth, unsigned c)
{
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if ((unsigned char)s->at[mid].text[depth] < c)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int32_t specials_match(const struct specials *s, const char *text, size_t len)
{
	unsigned c = (unsigned char)text[0];
	uint32_t lo = s->first[c], hi = s->first[c + 1];
	int32_t best = -1;

	/* All texts in [lo, hi) start with the first `depth` bytes of the
	 * input. */
	for (uint32_t depth = 1; lo < hi; depth++) {
		if (s->at[lo].len == depth)
			best = s->at[lo++].id;
		if (depth == len)
			break;
		c = (unsigned char)text[depth];
		lo = lower_bound(s, lo, hi, depth, c);
		hi = lower_bound(s, lo, hi, depth, c + 1);
	}
	return best;
}
