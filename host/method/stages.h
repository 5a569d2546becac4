/*
 * Staged token stabilization (llada.cpp, section 3.3, "Staged Token
 * Stabilization"): what each generated position is to the others.
 *
 *   invisible  nothing is known, or not surely enough: its input is the mask
 *   visible    it has a token that others see, and which may still change
 *   stable     it has a token for good; nobody asks for its logits any more
 *
 * From invisible to visible by one threshold of confidence, from either to
 * stable by a higher one. Stable is for ever. Plain data; any thread.
 */
#ifndef HOST_METHOD_STAGES_H
#define HOST_METHOD_STAGES_H

#include <stdbool.h>
#include <stdint.h>

struct guess;

enum stage { STAGE_INVISIBLE, STAGE_VISIBLE, STAGE_STABLE };

struct stages_rule {
	double visible, stable; /* thresholds of confidence */
	bool revise; /* visible tokens change; else they are as good as stable
		      */
	bool fall;   /* below the threshold a visible one is invisible again,
		      * once */
};

struct place {
	enum stage stage;
	int32_t token; /* unless invisible; of a later block, also a draft */
	double confidence; /* when it was last looked at; 0: never */
	/* The token is another than that which its keys and values in the
	 * cache were computed of. */
	bool stale;
	bool left; /* behind the window, for revision to see to */
	bool held; /* it does not fall any more, so that decoding ends */
};

/* What a guess came to; 0: nothing that others see. */
enum stages_change {
	CHANGE_SEEN = 1,    /* it was invisible and is not */
	CHANGE_REVISED = 2, /* it has another token */
	CHANGE_FELL = 4,
};
unsigned stages_take(
	struct place *, const struct stages_rule *, const struct guess *);

/* It is visible, however unsure: something has to be. */
void stages_promote(
	struct place *, const struct stages_rule *, const struct guess *);

/* It is invisible again. */
unsigned stages_hide(struct place *);

#endif
