#include "host/scheduler/prefixes.h"

#include "base/err.h"
#include "host/session/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct kept {
	uint32_t sequence, n;
	/* Result of the most recent call of session_spare for this sequence.
	 * session_spared returns the same number until the session removes the
	 * sequence. A more recently used sequence has a larger number. */
	uint64_t spare;
	int32_t *token; /* the n tokens */
};

struct prefixes {
	struct session *session;
	uint32_t n, most;
	struct kept kept[]; /* room for `most` entries */
};

int prefixes_open(struct prefixes **out, struct session *session, uint32_t most,
	struct err *e)
{
	struct prefixes *p = calloc(1, sizeof(*p) + most * sizeof(*p->kept));

	if (!p)
		return err_set(e, ENOMEM,
			"no memory for the list of %u cached sequences", most);
	p->session = session;
	p->most = most;
	*out = p;
	return 0;
}

/* Remove an entry of the cache; the entry's sequence remains in the session. */
static void forget(struct prefixes *p, struct kept *k)
{
	free(k->token);
	*k = p->kept[--p->n];
}

static void drop(struct prefixes *p, struct kept *k)
{
	session_remove(p->session, k->sequence);
	forget(p, k);
}

void prefixes_close(struct prefixes *p)
{
	while (p && p->n)
		forget(p, &p->kept[0]);
	free(p);
}

/* Remove the entries of sequences that the session has removed. */
static void update(struct prefixes *p)
{
	for (uint32_t i = p->n; i-- > 0;)
		if (session_spared(p->session, p->kept[i].sequence) !=
			p->kept[i].spare)
			forget(p, &p->kept[i]);
}

/* ---- finding a prefix ---------------------------------------------------- */

uint32_t prefix_common(const int32_t *a, const int32_t *b, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && a[i] == b[i])
		i++;
	return i;
}

struct prefix prefixes_find(
	struct prefixes *p, const int32_t *token, uint32_t n)
{
	struct prefix found = { 0 };
	struct kept *best = NULL;

	update(p);
	for (uint32_t i = 0; i < p->n; i++) {
		struct kept *k = &p->kept[i];
		uint32_t same =
			prefix_common(k->token, token, k->n < n ? k->n : n);

		if (same <= found.length)
			continue;
		found = (struct prefix){ k->sequence, same };
		best = k;
	}
	if (best)
		best->spare = session_spare(p->session, best->sequence);
	return found;
}

int prefix_fork(struct session *s, const struct prefix *x, uint32_t *sequence,
	struct err *e)
{
	int ret;

	if (!x->length)
		return session_add(s, sequence, e);
	ret = session_fork(s, x->sequence, sequence, e);
	if (!ret)
		session_truncate(s, *sequence, x->length);
	return ret;
}

/* ---- adding a sequence --------------------------------------------------- */

void prefixes_keep(struct prefixes *p, const int32_t *token, uint32_t sequence)
{
	uint32_t n = session_length(p->session, sequence);
	int32_t *copy = NULL;
	/* an entry whose first n tokens are equal to token[n] */
	struct kept *same = NULL;

	update(p);
	for (uint32_t i = 0; i < p->n && !same; i++)
		if (p->kept[i].n >= n &&
			prefix_common(p->kept[i].token, token, n) == n)
			same = &p->kept[i];
	if (same)
		same->spare = session_spare(p->session, same->sequence);
	else if (n && p->most)
		copy = malloc(n * sizeof(*copy));
	if (!copy) {
		session_remove(p->session, sequence);
		return;
	}
	memcpy(copy, token, n * sizeof(*copy));

	for (uint32_t i = p->n; i-- > 0;)
		if (p->kept[i].n <= n &&
			prefix_common(p->kept[i].token, token, p->kept[i].n) ==
				p->kept[i].n)
			drop(p, &p->kept[i]);
	if (p->n && p->n == p->most) {
		struct kept *oldest = &p->kept[0];

		for (uint32_t i = 1; i < p->n; i++)
			if (p->kept[i].spare < oldest->spare)
				oldest = &p->kept[i];
		drop(p, oldest);
	}
	p->kept[p->n++] = (struct kept){ sequence, n,
		session_spare(p->session, sequence), copy };
}
