/*
 * How much memory weights may take: which layers stay in it, through how many
 * slots the others are streamed, whether the output matrix stays on flash; and
 * whether the machine has that much left.
 *
 * A share is of the layers that stay, beside which are the slots. A size is of
 * all memory that weights take: of the slots, then of as many layers as the
 * rest holds, and of the output matrix where all layers fit and it does as
 * well.
 */
#ifndef HOST_SESSION_SESSION_BUDGET_H
#define HOST_SESSION_SESSION_BUDGET_H

struct err;
struct memory_left;
struct model;
struct session_opts;
struct session_plan;

/* Fills resident, stage_slots and output_stays. -EINVAL: no flash image, or
 * less than two slots hold. */
int session_budget_choose(struct session_plan *, const struct model *,
	const struct session_opts *, struct err *);

/*
 * Of a complete plan, before anything is loaded: -ENOMEM, with all numbers,
 * where the weights of a flash image and what both processes need beside them
 * are more than is left. The kernel would say so by killing one of them.
 */
int session_budget_check(const struct session_plan *, const struct model *,
	const struct memory_left *, struct err *);

#endif
