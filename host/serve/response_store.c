/* Keeps finished responses in memory, so that clients can read or continue them
 * (responses.h). */
#include "host/serve/responses.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kept {
	struct kept *next;
	uint64_t owner;
	char id[RESPONSE_ID];
	char *object, *messages;
	size_t bytes;
};

struct response_store {
	pthread_mutex_t lock;
	struct kept *first, **end; /* oldest first */
	unsigned n;
	size_t bytes;
};

int response_store_open(struct response_store **out)
{
	struct response_store *s = calloc(1, sizeof(*s));

	*out = s;
	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	s->end = &s->first;
	return 0;
}

static void kept_free(struct kept *k)
{
	free(k->object);
	free(k->messages);
	free(k);
}

static void remove_at(struct response_store *s, struct kept **at)
{
	struct kept *k = *at;

	*at = k->next;
	if (!k->next)
		s->end = at;
	s->n--;
	s->bytes -= k->bytes;
	kept_free(k);
}

void response_store_close(struct response_store *s)
{
	if (!s)
		return;
	while (s->first)
		remove_at(s, &s->first);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Returns the address of the list link that points to the response; if the
 * response is not in the list, the address of the last link, whose value is
 * NULL. */
static struct kept **find(
	struct response_store *s, uint64_t owner, const char *id)
{
	struct kept **at = &s->first;

	while (*at && ((*at)->owner != owner || strcmp((*at)->id, id)))
		at = &(*at)->next;
	return at;
}

void response_store_put(struct response_store *s, uint64_t owner,
	const char *id, const char *object, size_t len, const json_t *messages)
{
	struct kept *k = calloc(1, sizeof(*k));

	if (!k)
		return;
	k->owner = owner;
	memcpy(k->id, id, strlen(id) + 1);
	k->object = strndup(object, len);
	k->messages = json_dumps(messages, JSON_COMPACT);
	if (!k->object || !k->messages) {
		kept_free(k);
		return;
	}
	k->bytes = len + strlen(k->messages);
	pthread_mutex_lock(&s->lock);
	*s->end = k;
	s->end = &k->next;
	s->n++;
	s->bytes += k->bytes;
	while (s->first &&
		(s->n > RESPONSES_KEPT || s->bytes > RESPONSES_BYTES))
		remove_at(s, &s->first);
	pthread_mutex_unlock(&s->lock);
}

char *response_store_get(
	struct response_store *s, uint64_t owner, const char *id, bool messages)
{
	const struct kept *k;
	char *text = NULL;

	pthread_mutex_lock(&s->lock);
	k = *find(s, owner, id);
	if (k)
		text = strdup(messages ? k->messages : k->object);
	pthread_mutex_unlock(&s->lock);
	return text;
}

bool response_store_drop(
	struct response_store *s, uint64_t owner, const char *id)
{
	struct kept **at;
	bool had;

	pthread_mutex_lock(&s->lock);
	at = find(s, owner, id);
	had = *at;
	if (had)
		remove_at(s, at);
	pthread_mutex_unlock(&s->lock);
	return had;
}
