/*
 * A cache in memory for the experts of a mixture-of-experts model. The DRAM
 * budget limits its size. A slot holds the gate, up and down matrices of one
 * expert, as in a flash image (docs/flash-image.md); slots lie in shared
 * buffers (tandem:experts0, ...) that the device has mapped permanently. If
 * there is a slot for each expert, all experts are loaded when the cache is
 * opened, from a GGUF file or a flash image. Otherwise the model is a flash
 * image, and an expert that is needed but absent is read into the slot of
 * another expert. All absent experts of a layer are read in parallel.
 *
 * A pass calls experts_begin for each layer, then experts_take until all
 * experts that the layer needs are taken, and experts_done when the device has
 * finished with an expert. experts_ahead reads experts that a later layer will
 * probably need. All calls come from one thread.
 *
 * Eviction: the expert whose next use is expected to be the farthest away is
 * evicted. This distance, in layers, is the number of layers until the expert's
 * layer runs next, plus the average interval between the expert's uses. The
 * interval is not added for an expert that was read ahead and whose layer has
 * not run since. The uses of each expert are counted in passes, and halved
 * every 8 passes. The rule was tested with simulated traces of routers: few or
 * many popular experts, experts that change with the topic or from token to
 * token, passes of 1 to 32 rows, memory for 10 to 75 % of the experts. Each
 * rule was compared with the best of the tested rules for the same trace. With
 * this rule, the share of uses that needed a read was at most 0.024 larger than
 * with the best rule. If the least recently used expert is evicted, the share
 * is up to 0.69 larger than with the best rule, because every expert is evicted
 * before its next use if a pass uses more experts than there are slots. With
 * counts that are never halved, the share is up to 0.36 larger than with the
 * best rule. A read ahead evicts by the same rule as a needed read, so it
 * evicts the expert that the next needed read would evict anyway. There is one
 * exception: a read ahead evicts no expert that was read ahead for a layer that
 * has not run yet.
 */
#ifndef HOST_MEMORY_EXPERTS_H
#define HOST_MEMORY_EXPERTS_H

#include "flash/stream.h"
#include "host/memory/experts_stats.h"
#include "ipc/wire.h"
#include "tensor/layout.h"

#include <stddef.h>
#include <stdint.h>

struct buffer;
struct err;
struct experts;
struct model;
struct phone_time;
struct progress_sink;
struct soc;
struct trace;
struct workers;

struct experts_opts {
	const struct model *model; /* a model with experts */
	/* layout of the matrices in the slots, if the model is a GGUF file; a
	 * flash image keeps its own layout */
	enum layout layout;
	/* maximum bytes of a strip (the weights of 32 outputs of a matrix), as
	 * in struct weights_plan (host/memory/weights.h) */
	size_t strip_max;
	/* Number of slots, at least EXPERTS_SLOTS_MIN; at most one for each
	 * expert is used. */
	uint32_t slots;
	struct stream_opts stream;
	/* The simulated phone and its timeline; NULL if no phone is
	 * simulated. */
	const struct soc *soc;
	struct phone_time *time;
	/* Bytes that the simulated phone reads for an expert; 0: as many bytes
	 * as are really read. */
	uint64_t priced_bytes;
	struct trace *trace; /* receives events; may be NULL */
};
#define EXPERTS_SLOTS_MIN 2u

/* Describe in `tensor` where the gate, up and down matrices lie in a slot; the
 * other tensors get 0 rows. Returns the size in bytes of an expert of the
 * layer. */
uint64_t experts_tensors(const struct model *, enum layout, size_t strip_max,
	uint32_t layer, struct wire_tensor tensor[WIRE_T_COUNT]);
/* Returns the size of a slot in bytes, a multiple of the page size. */
size_t experts_slot_bytes(const struct model *, enum layout, size_t strip_max);

/* Create the buffers. If there is a slot for each expert, load all experts.
 * Returns 0; -EINVAL if there are fewer slots and the model file is not a flash
 * image; or another negative errno. */
int experts_open(struct experts **out, const struct experts_opts *,
	struct workers *, const struct progress_sink *, struct err *);
void experts_close(struct experts *);

unsigned experts_buffers(const struct experts *);
struct buffer *experts_buffer(const struct experts *, unsigned i);
/* Number of loaded values that are not finite. Experts from a flash image are
 * not checked. */
uint64_t experts_not_finite(const struct experts *);

/*
 * Set the next n experts that the device will run: expert[n] of one layer, in
 * ascending order, without repetition. Starts to read the absent experts.
 * Experts of an earlier experts_begin that were not taken are forgotten. If
 * `layer` is lower than in the previous call, a new pass begins.
 */
int experts_begin(struct experts *, uint32_t layer, const uint32_t *expert,
	uint32_t n, struct err *);

/* An expert that experts_take returns, and its place in memory. */
struct expert_place {
	uint32_t expert;
	unsigned buffer, slot;
	uint32_t offset; /* byte offset in the buffer */
};

/*
 * Of the experts of the most recent experts_begin, take up to `room` that are
 * in memory. If none of them is in memory yet, wait for the first expert. The
 * slots are in use until experts_done. *n is 0 only if all experts of that
 * experts_begin were taken, or after an error. Returns -EAGAIN if all slots
 * that could hold the remaining experts are in use: call experts_done for a
 * slot and try again. If an expert cannot be read, no expert is taken; the next
 * call tries to read it again.
 *
 * On the simulated phone the host waits on the phone's timeline. turn_ps is the
 * time when the work before these experts ends. Before turn_ps, the phone does
 * at most the fraction flash_ahead (a property of the phone) of a read ahead.
 */
int experts_take(struct experts *, uint64_t turn_ps, struct expert_place *,
	uint32_t room, uint32_t *n, struct err *);

/* Report that the device has finished with a slot, at time `ps` of the
 * simulated phone. */
void experts_done(struct experts *, unsigned slot, uint64_t ps);

/*
 * Start to read the absent experts among expert[n], which `layer` will probably
 * need. If too many reads ahead are in flight, the remaining experts are not
 * read: if the prediction is wrong, reads ahead delay the reads of the experts
 * that are needed. If a read ahead fails, experts_begin reads the expert again.
 */
void experts_ahead(
	struct experts *, uint32_t layer, const uint32_t *expert, uint32_t n);

/* Handle finished reads without waiting. */
void experts_read_on(struct experts *);

void experts_stats(const struct experts *, struct experts_stats *out);
/* Describe how the image is read (see stream_how); "" if nothing is read. */
const char *experts_how(const struct experts *);

#endif
