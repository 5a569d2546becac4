/* Interface between reward.c and the kinds of rewards: each kind is a table of
 * functions in a file of its own. Private to host/head. */
#ifndef HOST_HEAD_REWARD_IMPL_H
#define HOST_HEAD_REWARD_IMPL_H

#include "host/head/reward.h"

#include <limits.h>

struct scorer;

struct reward_kind {
	const char *name;
	/* whether no step of a text has a larger score than the step before it
	 * (result of reward_scores_fall) */
	bool scores_fall;
	/* Returns the number of the target's layers that the reward need not
	 * compute again (result of reward_tap_layers); NULL means 0. */
	uint32_t (*tap_layers)(const struct reward *);
	/* Read the file at reward->path, and set reward->own to the memory of
	 * the kind. Whether read() succeeds or fails, reward_close later calls
	 * close() (unless it is NULL), which releases what this memory refers
	 * to, and then frees reward->own. */
	int (*read)(struct reward *, struct err *);
	int (*start)(struct reward *, struct session *,
		const struct session_opts *, uint32_t texts, struct err *);
	int (*score)(struct reward *, struct reward_text *, unsigned n,
		struct err *);
	void (*close)(struct reward *);
};

extern const struct reward_kind reward_kind_head, reward_kind_prm;

struct reward {
	const struct reward_kind *kind;
	char path[PATH_MAX];
	struct reward_site site;
	void *own;             /* data that the functions of `kind` use */
	struct scorer *scorer; /* NULL before reward_start */
	struct session *beside;
	struct reward_stats stats;
};

#endif
