/*
 * The internals of the cache of experts, for host/memory/experts*.c. The
 * experts of all layers are numbered: layer * n_expert + expert.
 */
#ifndef HOST_MEMORY_EXPERTS_IMPL_H
#define HOST_MEMORY_EXPERTS_IMPL_H

#include "host/memory/experts.h"

#include "flash/image.h"
#include "host/model/model.h"
#include "host/model/packed.h"

#define EXPERT_ABSENT UINT32_MAX

enum slot_state { SLOT_EMPTY, SLOT_READING, SLOT_READY, SLOT_LOST };

struct slot {
	enum slot_state state;
	/* number of the slot's expert, unless the slot is empty or lost (a read
	 * into the slot never completed, so the slot is not used again) */
	uint32_t owner;
	uint32_t layer; /* the layer of the owner */
	/* estimated number of layers between two uses of the owner */
	uint32_t interval;
	/* number of experts_take calls for the slot that were not yet followed
	 * by an experts_done call */
	unsigned users;
	bool begun; /* listed by experts_begin, not yet taken by experts_take */
	bool ahead; /* read by experts_ahead, never taken by experts_take */
	/* whether the expert was read ahead and its layer has not begun since
	 * the read */
	bool due;
	/* Times on the simulated phone. free_ps: when the device has finished
	 * with the slot. ready_ps: when the read into the slot ends. takes_ps:
	 * how long this read takes if flash is idle. */
	uint64_t free_ps, ready_ps, takes_ps;
};

struct expert {
	uint32_t slot; /* index of the expert's slot, or EXPERT_ABSENT */
	/* number of passes that used the expert, times USE; halved every
	 * HALVE_PASSES passes */
	uint32_t uses;
};

struct begun {
	uint32_t expert;
	bool taken, found;
};

struct experts {
	struct experts_opts opts;
	size_t slot_bytes;
	uint32_t slots, per_buffer;
	struct buffer **buffer; /* [buffers] */
	unsigned buffers;
	struct slot *slot;     /* [slots] */
	struct expert *expert; /* [n_layer * n_expert] */
	uint32_t in_use;       /* sum of `users` over all slots */
	uint32_t passes;
	uint32_t layer; /* the layer of the experts in `begun` */
	uint32_t n_begun;
	struct begun begun[WIRE_MAX_EXPERTS];
	struct stream *stream; /* reads experts; NULL if all are in memory */
	unsigned in_flight;
	uint64_t not_finite;
	struct experts_stats stats;
};

static inline struct buffer *buffer_of(
	const struct experts *x, uint32_t slot, size_t *offset)
{
	*offset = slot % x->per_buffer * x->slot_bytes;
	return x->buffer[slot / x->per_buffer];
}

static inline const struct image_extent *extent_of(
	const struct experts *x, uint32_t expert)
{
	return image_find(x->opts.model->packed->image, IMAGE_EXPERT, expert);
}

#endif
