/*
 * Memory budget for weights: decides which layers stay in memory; how many
 * slots (buffers) the other, streamed layers use; and whether the output matrix
 * of a flash image is streamed after the layers. Also checks that the machine
 * has enough free memory.
 *
 * The budget is either a share or a size. A share limits the resident layers
 * only; slots and the output matrix are not counted. A size limits all memory
 * for weights: first the slots, then the output matrix, then as many layers as
 * the rest can hold. The matrix has priority over layers: a streamed layer is
 * read once per pass, but a streamed matrix may be read several times, once per
 * computation of logits. If a size cannot hold the requested number of slots
 * for whole layers, each slot holds only a quarter of a layer.
 *
 * In a model with experts, all weights except those of experts stay in memory.
 * A share is then a share of the experts, and a size includes the other
 * weights.
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
 * Bytes of a staging slot, including the RoPE frequencies at its start. With
 * parts <= 1 the slot can hold the largest streamed layer. Otherwise layers are
 * cut into up to `parts` parts, and the slot can hold the largest part.
 */
size_t session_budget_slot(
	const struct model *, const struct residency *, unsigned parts);

/* Set resident, stage_slots, stage_parts, output_streamed and expert_slots of a
 * plan; `runs` must be set before the call. Returns 0, or -EINVAL if the model
 * is not a flash image or the budget is too small for two slots. */
int session_budget_choose(struct session_plan *, const struct model *,
	const struct session_opts *, struct err *);

/*
 * Check a complete plan before anything is loaded. If the weights of a flash
 * image and the other memory of both processes exceed the free memory, and
 * layers are streamed, the plan is changed: first each staging slot holds only
 * a quarter of a layer; if that is not enough, the output matrix is streamed,
 * too. Returns 0, or -ENOMEM with all numbers in the message if the plan still
 * needs too much memory. Without this check the kernel would kill one of the
 * processes.
 */
int session_budget_fit(struct session_plan *, const struct model *,
	const struct session_opts *, const struct memory_left *, struct err *);

/* Bytes of all weights of a model's layers and of its output matrix. */
uint64_t session_model_bytes(const struct model *);

/*
 * Estimate the memory that a session with these options needs, as the sum of
 * both processes: the weights that stay in memory, slots, cache and
 * activations. The weights of a GGUF file are assumed to take as many bytes as
 * in the file. Returns 0, or the error of session_plan.
 */
int session_need(const struct model *, const struct session_opts *,
	uint64_t *bytes, struct err *);

#endif
