/*
 * The queue of texts that wait for a lane, and the order of the queue. A lane
 * runs one text at a time; the number of lanes is the number of texts that can
 * run at the same time. A client is the user of an API key, or else a network
 * address (client_id.h). A turn starts one text, so a request of many texts
 * waits for many turns. The next turn goes to
 *
 *   1. the texts with the lowest priority number;
 *   2. of these, a text of the client with the fewest running texts, so that
 *      clients that always have texts waiting share the lanes evenly, however
 *      long their texts are;
 *   3. of these clients, the client whose last turn was longest ago, so that
 *      with one lane the clients take turns;
 *   4. of this client's texts, the text that arrived first.
 *
 * A client with one text therefore waits for at most one turn of each other
 * client, however many texts the other clients have.
 *
 * Texts with a higher priority number must not wait for ever. So, while texts
 * with different numbers wait, at most FAIR_PASSES turns in a row go to texts
 * with the lowest number. The next turn then goes to the text that arrived
 * first among the waiting texts whose number is above the lowest waiting
 * number.
 *
 * The queue is bounded, and so is each client's share of it (fair_queue_room):
 * one client cannot fill the queue so that all other clients are refused.
 *
 * The caller owns the tickets; the queue owns the list of clients. The queue
 * takes no lock and does not depend on a model. Times are in nanoseconds of
 * clock_ns().
 */
#ifndef HOST_SERVE_FAIR_QUEUE_H
#define HOST_SERVE_FAIR_QUEUE_H

#include <stdint.h>

struct fair_client;

enum { FAIR_PASSES = 8 };

/* The texts of one request. The caller must not move the ticket while any of
 * its texts waits or runs. */
struct fair_ticket {
	struct fair_client *client;
	int priority;
	unsigned waiting; /* texts that wait */
	uint64_t arrived; /* number in the order of arrival */
	struct fair_ticket *next;
};

struct fair_queue {
	struct fair_client *first; /* clients with waiting or running texts */
	/* numbers of waiting texts, running texts, and clients with waiting
	 * texts */
	unsigned waiting, running, clients_waiting;
	uint64_t turns, arrivals; /* numbers of turns and arrivals so far */
	/* turns in a row for which a text with a higher priority number had to
	 * wait */
	unsigned passes;
	/* interval_s: mean time from the end of one text to the end of the
	 * next, counted only while texts run or wait. since_ns: start of the
	 * current interval. */
	double interval_s;
	uint64_t since_ns;
};

enum fair_room {
	FAIR_ROOM,
	FAIR_FULL,  /* the queue is full */
	FAIR_SHARE, /* the client has used its share of the queue */
};

/*
 * Whether n more texts of a client may be added, if up to `lanes` texts may run
 * and up to `bound` texts may wait at the same time. While other clients wait,
 * each client's share is the bound divided by the number of waiting clients,
 * this client included. A client without waiting texts may add one text to a
 * full queue if its share is at least one text, that is, if at most `bound`
 * clients wait, this client included. So at most `bound` clients can add a text
 * to a full queue, and up to 2 * bound texts may wait. If no text waits or
 * runs, any n is accepted. If there is no room, *ahead receives the number of
 * texts that have to leave the queue first.
 */
enum fair_room fair_queue_room(const struct fair_queue *, uint64_t client,
	unsigned n, unsigned lanes, unsigned bound, unsigned *ahead);

/* Estimate the seconds until `ahead` texts have left the queue, from the recent
 * rate: at least 1, at most 3600. */
unsigned fair_queue_retry_s(const struct fair_queue *, unsigned ahead);

/* Add n texts. Returns 0, or -ENOMEM. */
int fair_queue_add(struct fair_queue *, struct fair_ticket *, uint64_t client,
	int priority, unsigned n, uint64_t now_ns);

/* Give the next turn to a text, which then runs. Returns the ticket of the
 * text, or NULL if no text waits. */
struct fair_ticket *fair_queue_take(struct fair_queue *);

/* Remove the waiting texts of the ticket. */
void fair_queue_remove(struct fair_queue *, struct fair_ticket *);

/* To be called when a running text of the ticket has ended. */
void fair_queue_end(struct fair_queue *, struct fair_ticket *, uint64_t now_ns);

/* Free the list of clients. All tickets are invalid afterwards. */
void fair_queue_release(struct fair_queue *);

#endif
