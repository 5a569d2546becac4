#include "host/scheduler/tapped.h"

#include "host/model/model.h"
#include "host/session/session.h"

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

int tapped_keep(struct tapped *t, struct session *s, size_t at, uint32_t row)
{
	/* A token whose cached keys and values were dropped is computed again.
	 * Its state is the same as before and is stored already. */
	if (!session_tap_layers(s) || at < t->n)
		return 0;
	if (reserve(t, s, at + 1))
		return -ENOMEM;
	assert(at == t->n);
	memcpy(t->state + at * width_of(s), session_tapped(s, row),
		width_of(s) * sizeof(*t->state));
	t->n++;
	session_add_states(s, 1);
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
