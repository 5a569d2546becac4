#include "host/scheduler/tapped.h"

#include "base/err.h"
#include "host/scheduler/method.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t width_of(const struct session *s)
{
	return session_model(s)->n_embd;
}

static int reserve(struct tapped *t, const struct session *s, size_t n)
{
	size_t room = t->room ? t->room : 64;
	float *state;

	if (n <= t->room)
		return 0;
	while (room < n)
		room *= 2;
	state = reallocarray(t->state, room, width_of(s) * sizeof(*state));
	if (!state)
		return -ENOMEM;
	t->state = state;
	t->room = room;
	return 0;
}

static void put(
	struct tapped *t, struct session *s, size_t at, const float *state)
{
	assert(at == t->n && at < t->room);
	memcpy(t->state + at * width_of(s), state,
		width_of(s) * sizeof(*state));
	t->n++;
	session_add_states(s, 1);
}

/* ---- states of a prompt -------------------------------------------------- */

struct reading {
	struct tapped *to;
	struct session *session;
};

static void take(void *arg, size_t at, const float *state)
{
	const struct reading *r = arg;

	put(r->to, r->session, at, state);
}

int tapped_prefill(struct tapped *t, struct session *s,
	const struct generation *g, uint32_t *last_row, struct err *e)
{
	struct reading r = { t, s };
	const struct session_reader reader = { .tapped = take, .arg = &r };
	size_t n;
	const int32_t *token = gen_tokens(g, &n);

	if (!session_tap_layers(s))
		return method_prefill(s, g, last_row, e);
	if (reserve(t, s, n))
		return err_set(e, ENOMEM,
			"no memory for the hidden states of %zu tokens", n);
	session_truncate(s, SESSION_TEXT, 0);
	return session_prefill(s, SESSION_TEXT, token, n, &reader, last_row, e);
}

/* ---- states of generated tokens ------------------------------------------ */

int tapped_keep(struct tapped *t, struct session *s, size_t at, uint32_t row)
{
	/* A token whose cached keys and values were dropped is computed again.
	 * Its state is the same as before and is stored already. */
	if (!session_tap_layers(s) || at < t->n)
		return 0;
	if (reserve(t, s, at + 1))
		return -ENOMEM;
	put(t, s, at, session_tapped(s, row));
	return 0;
}

int tapped_copy(struct tapped *to, const struct tapped *from, struct session *s)
{
	if (!from->n)
		return 0;
	if (reserve(to, s, from->n))
		return -ENOMEM;
	memcpy(to->state, from->state, from->n * width_of(s) * sizeof(float));
	to->n = from->n;
	session_add_states(s, (uint32_t)from->n);
	return 0;
}

void tapped_release(struct tapped *t)
{
	free(t->state);
	*t = (struct tapped){ 0 };
}
