/*
 * How much memory weights may take: which layers stay in it, through how many
 * slots the others are streamed, whether the output matrix stays on flash; and
 * whether the machine has that much left.
 *
 * A share is of the layers that stay, beside which are the slots. A size is of
 * all memory that weights take: of the slots, then of as many layers as the
 * rest holds, and of the output matrix where all layers fit and it does as
 * well. Where memory does not hold as many slots as are asked for, each of a
 * layer, they hold a quarter of one.
 */
#ifndef HOST_SESSION_SESSION_BUDGET_H
#define HOST_SESSION_SESSION_BUDGET_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct memory_left;
struct model;
struct residency;
struct session_opts;
struct session_plan;

/*
 * Of a staging slot, its head included, that holds the largest of the layers
 * that are streamed, or of at most so many parts of them.
 */
size_t session_budget_slot(
	const struct model *, const struct residency *, unsigned parts);

/* Fills resident, stage_slots, stage_parts and output_stays, of a plan that has
 * runs. -EINVAL: no flash image, or less than two slots hold. */
int session_budget_choose(struct session_plan *, const struct model *,
	const struct session_opts *, struct err *);

/*
 * Of a complete plan, before anything is loaded: where the weights of a flash
 * image and what both processes need beside them are more than is left, slots
 * of whole layers give way to some of quarters. -ENOMEM, with all numbers,
 * where that is too much as well: the kernel would say so by killing one of
 * them.
 */
int session_budget_fit(struct session_plan *, const struct model *,
	const struct session_opts *, const struct memory_left *, struct err *);

#endif
