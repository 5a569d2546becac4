/*
 * Memory budget for weights: which layers stay in memory, how many slots the
 * others are streamed through, whether the output matrix stays on flash; and
 * whether the machine has enough memory left.
 *
 * A share counts resident layers only, without the slots. A size covers all
 * memory for weights: first the slots, then as many layers as the rest holds,
 * and the output matrix if all layers and the matrix fit. If memory does not
 * hold the requested number of slots with one layer each, a slot holds a
 * quarter of a layer.
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
 * Bytes of a staging slot, head included, for the largest of the streamed
 * layers, or for one of at most `parts` parts of them.
 */
size_t session_budget_slot(
	const struct model *, const struct residency *, unsigned parts);

/* Set resident, stage_slots, stage_parts and output_stays of a plan whose
 * `runs` are set. -EINVAL: not a flash image, or too little memory for two
 * slots. */
int session_budget_choose(struct session_plan *, const struct model *,
	const struct session_opts *, struct err *);

/*
 * Check a complete plan before anything is loaded. If the weights of a flash
 * image and both processes' other memory exceed the free memory, the staging
 * slots get room for quarters of layers in place of whole layers. -ENOMEM, with
 * all numbers, if that is still too much; otherwise the kernel would kill one
 * of the processes.
 */
int session_budget_fit(struct session_plan *, const struct model *,
	const struct session_opts *, const struct memory_left *, struct err *);

#endif
