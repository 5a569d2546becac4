/*
 * The experts of a model that are in memory: a cache under the DRAM budget. A
 * slot holds the gate, up and down matrices of one expert, as in a flash image;
 * slots lie in shared buffers (tandem:experts0, ...) that the device has mapped
 * permanently. If there is a slot for each expert, all are loaded when the
 * cache is opened, from any model file. Otherwise the model is a flash image,
 * and an expert that is needed but absent is read into the slot of another one,
 * all absent experts of a layer in parallel.
 *
 * A pass calls experts_begin for each layer, then experts_take until the
 * layer's experts are used up, and experts_done when the device has finished
 * with one. experts_ahead reads experts that a later layer will probably need.
 * All calls come from one thread.
 */
#ifndef HOST_MEMORY_EXPERTS_H
#define HOST_MEMORY_EXPERTS_H

#include "base/counters.h"
#include "flash/stream.h"
#include "ipc/wire.h"
#include "tensor/layout.h"

#include <stdbool.h>
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
	const struct model *model; /* with experts */
	enum layout layout;        /* of the matrices of a GGUF file */
	size_t strip_max;          /* as in struct weights_plan */
	/* Number of slots, at least EXPERTS_SLOTS_MIN; at most one for each
	 * expert is used. */
	uint32_t slots;
	struct stream_opts stream;
	/* The simulated phone and its timeline; both NULL without one. */
	const struct soc *soc;
	struct phone_time *time;
	/* Bytes of an expert on the simulated phone; 0: those that are read. */
	uint64_t priced_bytes;
	struct trace *trace; /* may be NULL */
};
#define EXPERTS_SLOTS_MIN 2u

/* Where gate, up and down lie in a slot; the other tensors have no rows. */
void experts_tensors(const struct model *, enum layout, size_t strip_max,
	uint32_t layer, struct wire_tensor tensor[WIRE_T_COUNT]);
/* Bytes of a slot: whole pages. */
size_t experts_slot_bytes(const struct model *, enum layout, size_t strip_max);

/* Create the buffers; load all experts if all have a slot. Returns 0; -EINVAL
 * if they do not and the model is no flash image; or another negative errno. */
int experts_open(struct experts **out, const struct experts_opts *,
	struct workers *, const struct progress_sink *, struct err *);
void experts_close(struct experts *);

unsigned experts_buffers(const struct experts *);
struct buffer *experts_buffer(const struct experts *, unsigned i);

/*
 * The next n experts that the device will run are these experts of a layer, in
 * ascending order, without repetition. Starts to read the absent ones. Experts
 * of earlier layers that were begun are forgotten unless they are in use.
 */
int experts_begin(struct experts *, uint32_t layer, const uint32_t *expert,
	uint32_t n, struct err *);

/* A begun expert that is in its slot. */
struct expert_place {
	uint32_t expert;
	unsigned buffer, slot;
	uint32_t offset; /* in the buffer */
};

/*
 * Take up to `room` begun experts: those that are in memory, without waiting;
 * if there are none, wait for the first. The slots are in use until
 * experts_done. *n is 0 only if all begun experts were taken. If all slots that
 * could hold the others are in use, *n is 0 and -EAGAIN is returned: call
 * experts_done for some, then try again. `turn_ps` is the time of the simulated
 * phone when the work before these experts ends, as in staging_need.
 */
int experts_take(struct experts *, uint64_t turn_ps, struct expert_place *,
	uint32_t room, uint32_t *n, struct err *);

/* The device has finished with a slot, at time `ps` of the simulated phone. */
void experts_done(struct experts *, unsigned slot, uint64_t ps);

/*
 * Start to read those of these experts of a layer that are absent, as long as
 * slots are free whose experts are less likely to be needed. Errors of reading
 * are reported when the expert is taken.
 */
void experts_ahead(
	struct experts *, uint32_t layer, const uint32_t *expert, uint32_t n);

/* Handle finished reads without waiting. */
void experts_read_on(struct experts *);

/* clang-format off */
#define EXPERTS_STATS(X)                                                      \
	X(uint64_t, used)         /* experts that were taken */               \
	X(uint64_t, found)        /* of these, in memory when begun */        \
	X(uint64_t, found_ahead)  /* of `used`, read or being read ahead */   \
	X(uint64_t, read)         /* experts read from flash */               \
	X(uint64_t, read_ahead)   /* of these, by experts_ahead */            \
	X(uint64_t, unused)       /* of these, evicted without being used */  \
	X(uint64_t, unused_bytes)                                             \
	X(uint64_t, wait_ns)      /* time of waiting for reads */             \
	X(uint64_t, wait_ps)      /* the same on the simulated phone */
/* clang-format on */

struct experts_stats {
	EXPERTS_STATS(COUNTER_MEMBER)
	struct stream_stats stream; /* all zero if nothing is read */
};
void experts_stats(const struct experts *, struct experts_stats *out);
/* How the image is read, as stream_how; "" if nothing is read. */
const char *experts_how(const struct experts *);

#endif
