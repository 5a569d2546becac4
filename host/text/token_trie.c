#include "host/text/token_trie.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t length(const struct token_trie *t, int32_t id)
{
	return t->at[id + 1] - t->at[id];
}

static int in_bytes(const void *a, const void *b, void *arg)
{
	const struct token_trie *t = arg;
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
	size_t lx = length(t, x), ly = length(t, y);
	int c = memcmp(
		t->bytes + t->at[x], t->bytes + t->at[y], lx < ly ? lx : ly);

	if (c)
		return c;
	return lx != ly ? (lx > ly) - (lx < ly) : (x > y) - (x < y);
}

/* Add the trie's nodes. open[d] is the node at depth d on the path of the
 * current token. */
static void add_nodes(struct token_trie *t)
{
	uint32_t open[TOKEN_BYTES + 1];
	size_t depth = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const char *bytes = t->bytes + t->at[t->id[i]];
		size_t len = length(t, t->id[i]), same = 0;

		/* set `same` to the number of leading bytes that this token
		 * shares with the previous token */
		while (same < depth && same < len &&
			(unsigned char)bytes[same] ==
				t->node[open[same + 1]].byte)
			same++;
		while (depth > same)
			t->node[open[depth--]].skip = t->n_nodes;
		while (depth < len) {
			struct trie_node *n = &t->node[t->n_nodes];

			*n = (struct trie_node){ .first = i,
				.byte = (unsigned char)bytes[depth],
				.depth = (uint8_t)(depth + 1) };
			open[++depth] = t->n_nodes++;
		}
		t->node[open[depth]].n++;
	}
	while (depth)
		t->node[open[depth--]].skip = t->n_nodes;
}

int token_trie_open(
	struct token_trie **out, const struct tokenizer *tok, struct err *e)
{
	struct token_trie *t = calloc(1, sizeof(*t));
	uint32_t n = tokenizer_n_vocab(tok);
	struct strbuf text = STRBUF_INIT;

	if (!t)
		goto fail;
	t->n_vocab = n;
	t->at = calloc((size_t)n + 1, sizeof(*t->at));
	t->id = calloc((size_t)n + 1, sizeof(*t->id));
	t->end = calloc((size_t)n + 1, sizeof(*t->end));
	if (!t->at || !t->id || !t->end)
		goto fail;

	/* For each token, collect the bytes that the token appends in the
	 * middle of a text. */
	for (uint32_t i = 0; i < n; i++) {
		struct detokenizer d = {
			.tok = tok, .raw = true, .started = true
		};

		t->at[i] = (uint32_t)text.len;
		detokenize(&d, (int32_t)i, &text);
	}
	t->at[n] = (uint32_t)text.len;
	t->bytes = text.data;
	if (text.failed)
		goto fail;

	/* Collect in `id` the tokens that have bytes, and in `end` the tokens
	 * that end the text. */
	for (uint32_t i = 0; i < n; i++) {
		size_t len = length(t, (int32_t)i);

		if (tokenizer_is_eog(tok, (int32_t)i)) {
			t->end[t->n_end++] = (int32_t)i;
			continue;
		}
		if (!len || len > TOKEN_BYTES)
			continue;
		t->id[t->n++] = (int32_t)i;
		if (len == 1)
			t->alone[(unsigned char)t->bytes[t->at[i]]] = 1;
	}
	qsort_r(t->id, t->n, sizeof(*t->id), in_bytes, t);

	t->node = calloc((size_t)t->at[n] + 1, sizeof(*t->node));
	if (!t->node)
		goto fail;
	add_nodes(t);
	*out = t;
	return 0;
fail:
	token_trie_close(t);
	return err_set(e, ENOMEM, "no memory for the bytes of %u tokens", n);
}

void token_trie_close(struct token_trie *t)
{
	if (!t)
		return;
	free(t->node);
	free(t->id);
	free(t->bytes);
	free(t->at);
	free(t->end);
	free(t);
}
