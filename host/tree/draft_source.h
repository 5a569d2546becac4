/*
 * Sources of drafted tokens, for statistics: earlier tokens of the same
 * sequence, prompt included (text); earlier answers (history); the target's
 * predictions for tokens that it verified (recycled) or for the prompt
 * (calibrated); rejected drafts (reused); a draft model or its simulation
 * (model).
 */
#ifndef HOST_TREE_DRAFT_SOURCE_H
#define HOST_TREE_DRAFT_SOURCE_H

/* X(end of the enum value's name, name of the source in counters). Reports list
 * the sources in this order. */
#define DRAFT_SOURCES(X)      \
	X(TEXT, text)         \
	X(HISTORY, history)   \
	X(RECYCLED, recycled) \
	X(CALIBRATED, calibrated) X(REUSED, reused) X(MODEL, model)

#define DRAFT_SOURCE_VALUE(id, name) SOURCE_##id,

enum draft_source { DRAFT_SOURCES(DRAFT_SOURCE_VALUE) };

#endif
