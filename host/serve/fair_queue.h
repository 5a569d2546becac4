/*
 * The queue of texts that wait for a lane, and its order. A client is the user
 * of an API key, or else a network address (client_id.h). A turn is one text,
 * so a request of many texts waits for many turns. The next turn goes to
 *
 *   1. the texts with the lowest priority number;
 *   2. of these, a text of the client with the fewest running texts, so that
 *      clients that always have texts waiting share the lanes evenly, however
 *      long their texts are;
 *   3. of these clients, the one whose last turn was longest ago, so that with
 *      one lane the clients take turns;
 *   4. of this client's texts, the one that arrived first.
 *
 * A client with one text therefore waits for at most one turn of each other
 * client, however many texts these have.
 *
 * So that texts with a higher number run in the end, they get a turn after
 * FAIR_PASSES turns in a row have gone to a lower number while they waited.
 * This turn goes to the text that arrived first among those with a number above
 * the lowest waiting one.
 *
 * The queue is bounded, and each client's part of it too (fair_queue_room), so
 * that one client cannot fill it and have all others refused.
 *
 * A ticket belongs to its caller, the list of clients to the queue. The queue
 * takes no lock and does not depend on a model. Times are in nanoseconds of
 * clock_ns().
 */
#ifndef HOST_SERVE_FAIR_QUEUE_H
#define HOST_SERVE_FAIR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct fair_client;

enum { FAIR_PASSES = 8 };

/* The texts of one request. The caller must not move it while texts of it wait
 * or run. */
struct fair_ticket {
	struct fair_client *client;
	int priority;
	unsigned waiting; /* texts that wait */
	uint64_t arrived; /* order of arrival in the queue */
	struct fair_ticket *next;
};

struct fair_queue {
	struct fair_client *first; /* clients with waiting or running texts */
	/* waiting and running texts, and clients with waiting ones */
	unsigned waiting, running, clients_waiting;
	uint64_t turns, arrivals; /* so far */
	unsigned passes; /* turns in a row that passed over a higher number */
	/* The mean time between two ends of texts while any ran or waited, and
	 * the time since when the next interval counts. */
	double interval_s;
	uint64_t since_ns;
};

enum fair_room {
	FAIR_ROOM,
	FAIR_FULL,  /* the queue is full */
	FAIR_SHARE, /* the client has its share of the queue */
};

/*
 * Whether n more texts of a client may be added, if up to `lanes` texts run and
 * up to `bound` texts wait at a time. While other clients wait, each client's
 * share is the bound divided by the number of waiting clients. A client without
 * waiting texts may add one text to a full queue if its share is at least one
 * text; so at most twice the bound wait. An empty queue without running texts
 * takes any number. If there is no room, *ahead receives the number of texts
 * that have to leave the queue first.
 */
enum fair_room fair_queue_room(const struct fair_queue *, uint64_t client,
	unsigned n, unsigned lanes, unsigned bound, unsigned *ahead);

/* Estimate the seconds until `ahead` texts have left the queue, from the recent
 * rate: at least 1, at most 3600. */
unsigned fair_queue_retry_s(const struct fair_queue *, unsigned ahead);

/* Add n texts. Returns 0, or -ENOMEM. */
int fair_queue_add(struct fair_queue *, struct fair_ticket *, uint64_t client,
	int priority, unsigned n, uint64_t now_ns);

/* Give the next turn to a text, which then runs. Returns its ticket, or NULL if
 * no text waits. */
struct fair_ticket *fair_queue_take(struct fair_queue *);

/* Remove the waiting texts of the ticket. */
void fair_queue_remove(struct fair_queue *, struct fair_ticket *);

/* A running text of the ticket has ended. */
void fair_queue_end(struct fair_queue *, struct fair_ticket *, uint64_t now_ns);

/* Free the list of clients. All tickets are invalid afterwards. */
void fair_queue_release(struct fair_queue *);

#endif
