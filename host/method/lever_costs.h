/*
 * What a cycle of lever takes, by the parts of host/tree/pass_cost.h, and how
 * each is found out: known of a phone; of another machine seen in cycles, those
 * of the text or, before there is one, of a probe. Of the env of a cycle that
 * was opened for lever, whose state holds the costs. One thread.
 */
#ifndef HOST_METHOD_LEVER_COSTS_H
#define HOST_METHOD_LEVER_COSTS_H

#include <stdint.h>

struct cycle;
struct err;
struct method_env;
struct session;

/* Of the layers the share in front of the exit. */
double lever_lower_share(const struct cycle *);

/* What can be known before a tree is drafted. */
void lever_know_costs(struct cycle *);

/* The drafter looked behind so many nodes at once: struct cycle's saw_look. */
void lever_saw_look(struct cycle *, uint32_t nodes, uint64_t time);

/* What the cycle behind us tells of all parts but rows. */
void lever_see_costs(const struct cycle *);

/*
 * A text that means nothing goes through a few cycles, with trees from one row
 * to the most there may be and some nodes of each drafted: what they take is
 * what is known from then on. None begins later than LEVER_PROBE_S, but the
 * first two, without which nothing would be known. Nothing of it stays but
 * that: the cache of SESSION_TEXT is empty, as it must be before, and neither
 * the hash of logits nor env's counts tell of it. Where no draft model drafts,
 * only passes are made. By the wall clock alone. Whatever the session or the
 * drafter fail with.
 */
#define LEVER_PROBE_S 2
int lever_probe(struct session *, struct method_env *, struct err *);

#endif
