/*
 * Staged token stabilization (llada.cpp, section 3.3). Each generated position
 * is in one of three stages:
 *
 *   invisible  The position has no confident guess (predicted token); its
 *              input is the mask.
 *   visible    The position has a token, to which other positions attend and
 *              which may still change.
 *   stable     The position has its final token; its logits are not computed
 *              again.
 *
 * A guess with a confidence of theta_v (`visible`) or more makes an invisible
 * position visible. A guess with a confidence of theta_s (`stable`) or more
 * makes a position stable; its token is then final. Plain data and pure
 * functions, usable from any thread.
 */
#ifndef HOST_METHOD_STAGES_H
#define HOST_METHOD_STAGES_H

#include <stdbool.h>
#include <stdint.h>

struct guess;

enum stage { STAGE_INVISIBLE, STAGE_VISIBLE, STAGE_STABLE };

struct stages_rule {
	/* visible: confidence from which a guess makes a position visible
	 * (theta_v). stable: confidence from which a guess makes a position
	 * stable (theta_s). */
	double visible, stable;
	/* whether visible tokens may change; if false, a position that becomes
	 * visible is stable at once */
	bool revise;
	/* whether a visible position becomes invisible again, at most once, if
	 * its confidence falls below theta_v */
	bool fall;
};

/* A generated position. */
struct place {
	enum stage stage;
	/* valid unless the stage is invisible; in blocks after the current
	 * block, the token is a draft, which is predicted again when its block
	 * becomes the current block */
	int32_t token;
	/* confidence of the last guess; 0 before the first guess */
	double confidence;
	/* whether the position's cached keys and values were computed from a
	 * token other than `token`, or from the mask */
	bool stale;
	/* whether the position precedes the window; the device then does not
	 * recompute the position, but the host can (revision.h) */
	bool outside;
	/* whether the position must not become invisible again: it already did
	 * so once, or stages_promote made it visible. Without this rule,
	 * decoding might never end. */
	bool pinned;
};

/* How stages_update changed a position by applying a guess to it. stages_update
 * returns one of these values, or 0 if other positions attend to the same token
 * as before. */
enum stages_change {
	CHANGE_SEEN = 1,    /* the position became visible or stable */
	CHANGE_REVISED = 2, /* the token of the position changed */
	CHANGE_HIDDEN = 4,  /* the position became invisible again */
};
unsigned stages_update(
	struct place *, const struct stages_rule *, const struct guess *);

/* Make the position visible, however low the confidence of the guess is. Each
 * pass must make at least one position visible, so that decoding ends. */
void stages_promote(
	struct place *, const struct stages_rule *, const struct guess *);

#endif
