/* The queue of texts that wait for a lane. A turn starts one text of a client;
 * a ticket stands for all texts of one request. */
#include "host/serve/fair_queue.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define RETRY_MAX 3600.0
/* Weight of the newest interval in the moving average of the intervals between
 * the ends of texts. */
#define NEWEST (1.0 / 8)

struct fair_client {
	uint64_t id;
	/* tickets with waiting texts, ordered by priority, then by arrival */
	struct fair_ticket *first;
	unsigned waiting, running;
	/* number of the client's last turn; 0: no turn yet */
	uint64_t last_turn;
	struct fair_client *next;
};

static struct fair_client *find(const struct fair_queue *q, uint64_t id)
{
	struct fair_client *c = q->first;

	while (c && c->id != id)
		c = c->next;
	return c;
}

enum fair_room fair_queue_room(const struct fair_queue *q, uint64_t client,
	unsigned n, unsigned lanes, unsigned bound, unsigned *ahead)
{
	const struct fair_client *c = find(q, client);
	unsigned mine = c ? c->waiting : 0;
	unsigned others = q->clients_waiting - (mine > 0);
	unsigned share = bound / (others + 1);
	unsigned free = lanes > q->running ? lanes - q->running : 0;

	if (!q->waiting && !q->running)
		return FAIR_ROOM;
	if (others && mine + n > share + free) {
		*ahead = mine + n - share - free;
		return FAIR_SHARE;
	}
	if (q->waiting + n > bound + free && (mine || n > 1 || !share)) {
		*ahead = q->waiting + n - bound - free;
		return FAIR_FULL;
	}
	return FAIR_ROOM;
}

unsigned fair_queue_retry_s(const struct fair_queue *q, unsigned ahead)
{
	double s = ceil(q->interval_s * ahead);

	return (unsigned)fmin(fmax(s, 1), RETRY_MAX);
}

int fair_queue_add(struct fair_queue *q, struct fair_ticket *t, uint64_t client,
	int priority, unsigned n, uint64_t now_ns)
{
	struct fair_client *c = find(q, client);
	struct fair_ticket **at;

	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return -ENOMEM;
		c->id = client;
		c->next = q->first;
		q->first = c;
	}
	if (!q->waiting && !q->running)
		q->since_ns = now_ns;
	at = &c->first;
	while (*at && (*at)->priority <= priority)
		at = &(*at)->next;
	*t = (struct fair_ticket){ .client = c,
		.priority = priority,
		.waiting = n,
		.next = *at,
		.arrived = q->arrivals++ };
	*at = t;
	q->clients_waiting += !c->waiting;
	c->waiting += n;
	q->waiting += n;
	return 0;
}

/* Remove the ticket, which has no waiting texts any more, from its client's
 * list. */
static void unlink_ticket(struct fair_ticket *t)
{
	struct fair_ticket **at = &t->client->first;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
}

/* Free the client if it has neither waiting nor running texts. */
static void drop_if_idle(struct fair_queue *q, struct fair_client *c)
{
	struct fair_client **at = &q->first;

	if (c->waiting || c->running)
		return;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	free(c);
}

/* Whether the first text of client `a` gets a turn before the first text of
 * client `b`. */
static bool is_before(const struct fair_client *a, const struct fair_client *b)
{
	if (a->first->priority != b->first->priority)
		return a->first->priority < b->first->priority;
	if (a->running != b->running)
		return a->running < b->running;
	return a->last_turn < b->last_turn;
}

struct fair_ticket *fair_queue_take(struct fair_queue *q)
{
	struct fair_client *best = NULL;
	struct fair_ticket *t, *passed = NULL;

	/* The list begins with the newest client. If is_before prefers none of
	 * several clients, take the oldest of them. */
	for (struct fair_client *c = q->first; c; c = c->next)
		if (c->first && (!best || !is_before(best, c)))
			best = c;
	if (!best)
		return NULL;
	t = best->first;
	/* `passed` is the ticket that arrived first among the tickets with a
	 * higher priority number than t. */
	for (struct fair_client *c = q->first; c; c = c->next)
		for (struct fair_ticket *o = c->first; o; o = o->next)
			if (o->priority > t->priority &&
				(!passed || o->arrived < passed->arrived))
				passed = o;
	q->passes = passed ? q->passes + 1 : 0;
	if (q->passes > FAIR_PASSES) {
		t = passed;
		best = t->client;
		q->passes = 0;
	}
	best->last_turn = ++q->turns;
	best->running++;
	best->waiting--;
	q->running++;
	q->waiting--;
	q->clients_waiting -= !best->waiting;
	if (!--t->waiting)
		unlink_ticket(t);
	return t;
}

void fair_queue_remove(struct fair_queue *q, struct fair_ticket *t)
{
	struct fair_client *c = t->client;

	if (!t->waiting)
		return;
	unlink_ticket(t);
	c->waiting -= t->waiting;
	q->waiting -= t->waiting;
	q->clients_waiting -= !c->waiting;
	t->waiting = 0;
	drop_if_idle(q, c);
}

void fair_queue_end(
	struct fair_queue *q, struct fair_ticket *t, uint64_t now_ns)
{
	struct fair_client *c = t->client;
	double s = (double)(now_ns - q->since_ns) * 1e-9;

	assert(c->running);
	q->interval_s = q->interval_s > 0
		? q->interval_s + (s - q->interval_s) * NEWEST
		: s;
	q->since_ns = now_ns;
	c->running--;
	q->running--;
	drop_if_idle(q, c);
}

void fair_queue_release(struct fair_queue *q)
{
	struct fair_client *c;

	while ((c = q->first)) {
		q->first = c->next;
		free(c);
	}
	*q = (struct fair_queue){ 0 };
}
