/*
 * The internals of a device (device/device.h). device.c opens and closes a
 * device and dispatches packets, device_maps.c handles buffers and their
 * mappings, device_graphs.c handles graphs. Functions that handle a packet
 * return 0 or the negative status of the packet's completion, with an error
 * text that names the wrong field.
 */
#ifndef DEVICE_DEVICE_IMPL_H
#define DEVICE_DEVICE_IMPL_H

#include "device/device.h"
#include "device/exec.h"
#include "device/extended.h"
#include "device/window.h"
#include "tensor/soc/soc.h"

struct cache;
struct device_trace;
struct graph;
struct loader;
struct workers;

struct shared { /* a buffer that the host shared */
	/* descriptor of the buffer's memfd; -1: no buffer was shared, or the
	 * buffer is unusable */
	int fd;
	struct wire_share share;
	char *why; /* why the buffer is unusable; NULL if it is usable */
};

struct graph_slot {
	bool loading;
	/* NULL: the entry is free, or its graph is still loading */
	struct graph *graph;
};

struct device {
	struct device_config config;
	struct window window;
	struct extended extended;
	struct device_trace *trace; /* NULL: no trace */
	struct cache *cache;
	struct workers *workers;
	struct exec exec;
	/* the phone's profile that the host has sent; exec.soc points here, or
	 * is NULL if the host has sent no profile */
	struct soc soc;
	struct loader *loader;
	unsigned loading;
	/* Number of graphs that are loaded or loading, and the maximum of this
	 * number so far. */
	uint32_t held, most_held;
	/* bytes of the weights of the graphs that are loaded or loading, and
	 * the maximum of this number so far */
	uint64_t held_bytes, most_held_bytes;
	/* bytes of memory that the graph structs take, including the structs of
	 * graphs that are loading */
	size_t plans_bytes;
	/* bytes of the scratch arena that the graphs need when all loads have
	 * finished */
	size_t arena_planned;
	struct shared shared[WIRE_MAX_BUFFERS];
	struct graph_slot graph[WIRE_MAX_GRAPHS];
};

/* ---- device_maps.c ------------------------------------------------------- */

void device_forget_share(struct shared *);
int device_map(struct device *, const struct packet *, struct wire_done *,
	struct err *);
int device_unmap(struct device *, uint32_t addr, struct err *);
/* Remove a buffer from the extended region (device/extended.h). `addr` is the
 * buffer's offset in the region, in units of WIRE_EXTENDED_UNIT bytes. */
int device_unmap_extended(struct device *, uint32_t addr, struct err *);

/* ---- device_graphs.c ----------------------------------------------------- */

/* The loader is a thread that builds graphs in the order of their requests. The
 * thread that runs requests takes the finished graphs and publishes the
 * completions. */
int loader_open(struct loader **out, struct err *);
/* Wait for the load in progress, drop all other loads, and free the loader. */
void loader_close(struct loader *);

/* Start to load a graph. Returns 0 if the load has started; device_loaded will
 * return its completion. */
int device_load_graph(struct device *, const struct packet *, struct err *);
int device_drop_graph(
	struct device *, uint32_t id, struct wire_done *, struct err *);
int device_run_graph(struct device *, const struct packet *, struct wire_done *,
	struct err *);

#endif
