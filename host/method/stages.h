/*
 * Staged token stabilization (llada.cpp, section 3.3): the stage of each
 * generated position.
 *
 *   invisible  no confident guess: the position's input is the mask
 *   visible    has a token that other positions see, and that may still change
 *   stable     has its final token; its logits are not computed any more
 *
 * A guess of at least theta_v (`visible`) makes an invisible position visible,
 * one of at least theta_s (`stable`) makes it stable. Stable is final. Plain
 * data; any thread.
 */
#ifndef HOST_METHOD_STAGES_H
#define HOST_METHOD_STAGES_H

#include <stdbool.h>
#include <stdint.h>

struct guess;

enum stage { STAGE_INVISIBLE, STAGE_VISIBLE, STAGE_STABLE };

struct stages_rule {
	double visible, stable; /* theta_v, theta_s: least confidence */
	/* visible tokens may change; false: they are stable at once */
	bool revise;
	/* a visible token whose confidence falls below theta_v becomes
	 * invisible again, once */
	bool fall;
};

struct place {
	enum stage stage;
	int32_t token;     /* unless invisible; of a later block: a draft */
	double confidence; /* of the last guess; 0: none yet */
	/* The cached keys and values are not those of this token. */
	bool stale;
	bool outside; /* before the window: left to revision.h */
	bool pinned;  /* does not become invisible again, so that decoding ends
		       */
};

/* Result of a guess; 0: no change that other positions see. */
enum stages_change {
	CHANGE_SEEN = 1,    /* it became visible or stable */
	CHANGE_REVISED = 2, /* its token changed */
	CHANGE_HIDDEN = 4,  /* it became invisible again */
};
unsigned stages_update(
	struct place *, const struct stages_rule *, const struct guess *);

/* Make the position visible, however low its confidence: each pass must decide
 * something. */
void stages_promote(
	struct place *, const struct stages_rule *, const struct guess *);

#endif
