#include "device/device_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/hugemem.h"
#include "base/workers.h"
#include "device/bind.h"
#include "device/device_trace.h"
#include "device/graph.h"
#include "device/rowset.h"
#include "tensor/soc/price.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the loader: builds graphs on a thread of its own -------------------- */

/* A graph to load. The loader owns the struct from its submission until the
 * thread that runs requests takes back the finished load. */
struct load {
	uint32_t graph, seq;
	/* [len] a copy of the checked WIRE_GRAPH_LOAD message; owned */
	void *msg;
	size_t len;
	unsigned threads;
	uint32_t weights_bytes; /* bytes of the graph's weights */
	size_t plan_bytes;
	/* bytes of the scratch arena to allocate; 0: the existing arena is
	 * large enough */
	size_t arena_bytes;
	/* The results of the load. A result is NULL before it is allocated, and
	 * if there is no memory for it. */
	struct graph *plan;
	void *arena;
	uint64_t began_ns, busy_ns;
	struct load *next;
};

struct queue {
	struct load *first, **end;
};

struct loader {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct queue todo, done;
	bool stop;
};

static void push(struct queue *q, struct load *l)
{
	l->next = NULL;
	*q->end = l;
	q->end = &l->next;
}

static struct load *pop(struct queue *q)
{
	struct load *l = q->first;

	if (l) {
		q->first = l->next;
		if (!q->first)
			q->end = &q->first;
	}
	return l;
}

/* Free a load and its results. A caller that keeps a result first sets the
 * load's pointer to the result to NULL. */
static void load_free(struct load *l)
{
	free(l->arena);
	free(l->plan);
	free(l->msg);
	free(l);
}

static void *loader_main(void *arg)
{
	struct loader *ld = arg;

	pthread_mutex_lock(&ld->lock);
	while (!ld->stop) {
		struct load *l = pop(&ld->todo);

		if (!l) {
			pthread_cond_wait(&ld->changed, &ld->lock);
			continue;
		}
		pthread_mutex_unlock(&ld->lock);
		l->began_ns = clock_ns();
		l->plan = graph_build(l->msg, l->len, l->threads);
		if (l->plan && l->arena_bytes)
			l->arena = hugemem_alloc(l->arena_bytes);
		l->busy_ns = clock_ns() - l->began_ns;
		pthread_mutex_lock(&ld->lock);
		push(&ld->done, l);
		pthread_cond_broadcast(&ld->changed);
	}
	pthread_mutex_unlock(&ld->lock);
	return NULL;
}

int loader_open(struct loader **out, struct err *e)
{
	struct loader *ld = calloc(1, sizeof(*ld));
	int ret;

	if (!ld)
		return err_set(e, ENOMEM, "no memory for the loader");
	ld->todo.end = &ld->todo.first;
	ld->done.end = &ld->done.first;
	pthread_mutex_init(&ld->lock, NULL);
	pthread_cond_init(&ld->changed, NULL);
	ret = pthread_create(&ld->thread, NULL, loader_main, ld);
	if (ret) {
		pthread_cond_destroy(&ld->changed);
		pthread_mutex_destroy(&ld->lock);
		free(ld);
		return err_sys(e, ret,
			"cannot start the loader's thread (no memory, or the "
			"limit of ulimit -u is reached)");
	}
	*out = ld;
	return 0;
}

void loader_close(struct loader *ld)
{
	struct load *l;

	if (!ld)
		return;
	pthread_mutex_lock(&ld->lock);
	ld->stop = true;
	pthread_cond_broadcast(&ld->changed);
	pthread_mutex_unlock(&ld->lock);
	pthread_join(ld->thread, NULL);
	while ((l = pop(&ld->todo)) || (l = pop(&ld->done)))
		load_free(l);
	pthread_cond_destroy(&ld->changed);
	pthread_mutex_destroy(&ld->lock);
	free(ld);
}

/* ---- requests to load, drop and run graphs ------------------------------- */

static void release_held(struct device *d, uint32_t weights_bytes)
{
	d->held--;
	d->held_bytes -= weights_bytes;
}

static uint32_t in_kib(uint64_t bytes)
{
	return (uint32_t)((bytes + 1023) >> 10);
}

static void report_held(const struct device *d, struct wire_done *done)
{
	done->arg[WIRE_GRAPHS_HELD] = d->held;
	done->arg[WIRE_GRAPHS_MOST] = d->most_held;
	done->arg[WIRE_GRAPHS_KIB] = in_kib(d->held_bytes);
	done->arg[WIRE_GRAPHS_MOST_KIB] = in_kib(d->most_held_bytes);
}

/* Find the entry of graph `id`; the entry may be free. Returns NULL if the id
 * is invalid or the graph is still loading. `what` is the operation, for the
 * error message. */
static struct graph_slot *find_graph(
	struct device *d, const char *what, uint32_t id, struct err *e)
{
	if (id >= WIRE_MAX_GRAPHS) {
		err_set(e, EINVAL, "%s: graph number %u must be below %d", what,
			id, WIRE_MAX_GRAPHS);
		return NULL;
	}
	if (d->graph[id].loading) {
		err_set(e, EBUSY, "%s: graph %u is still loading", what, id);
		return NULL;
	}
	return &d->graph[id];
}

int device_load_graph(struct device *d, const struct packet *p, struct err *e)
{
	struct graph_limits limits = {
		.threads = workers_count(d->workers),
		.tcm_slice = d->exec.slice,
		.plans_bytes = d->plans_bytes,
		.arena_bytes = d->arena_planned,
	};
	struct graph_slot *slot;
	struct graph_need need;
	struct load *l;
	uint32_t id;
	int ret = graph_check(p->msg, p->len, &limits, &need, e);

	if (ret)
		return ret;
	memcpy(&id,
		(const uint8_t *)p->msg +
			offsetof(struct wire_graph_load, graph),
		sizeof(id));
	slot = find_graph(d, "graph load", id, e);
	if (!slot)
		return e->code;
	if (slot->graph)
		return err_set(e, EEXIST,
			"graph load: graph %u exists; drop it first", id);

	l = calloc(1, sizeof(*l));
	if (l)
		l->msg = malloc(p->len);
	if (!l || !l->msg) {
		free(l);
		return err_set(e, ENOMEM, "graph load: no memory");
	}
	memcpy(l->msg, p->msg, p->len);
	l->len = p->len;
	l->graph = id;
	l->seq = p->seq;
	l->weights_bytes = need.weights_bytes;
	l->threads = limits.threads;
	l->plan_bytes = need.plan_bytes;
	if (need.arena_bytes > d->arena_planned)
		l->arena_bytes = d->arena_planned = need.arena_bytes;
	d->plans_bytes += need.plan_bytes;
	slot->loading = true;
	d->loading++;
	d->held++;
	d->held_bytes += need.weights_bytes;
	if (d->held > d->most_held)
		d->most_held = d->held;
	if (d->held_bytes > d->most_held_bytes)
		d->most_held_bytes = d->held_bytes;
	pthread_mutex_lock(&d->loader->lock);
	push(&d->loader->todo, l);
	pthread_cond_broadcast(&d->loader->changed);
	pthread_mutex_unlock(&d->loader->lock);
	return 0;
}

bool device_loaded(
	struct device *d, bool wait, uint32_t *seq, struct wire_done *done)
{
	struct loader *ld = d->loader;
	struct graph_slot *slot;
	struct load *l;

	pthread_mutex_lock(&ld->lock);
	while (!(l = pop(&ld->done)) && wait && d->loading)
		pthread_cond_wait(&ld->changed, &ld->lock);
	pthread_mutex_unlock(&ld->lock);
	if (!l)
		return false;
	slot = &d->graph[l->graph];
	slot->loading = false;
	d->loading--;
	*seq = l->seq;
	*done = (struct wire_done){ .op = WIRE_GRAPH_LOAD };
	done->counters.busy_ns = l->busy_ns;
	if (d->trace)
		device_trace_on(d->trace, WIRE_TRACE_LOADER, 0, WIRE_TRACE_LOAD,
			"graph load", l->began_ns, l->began_ns + l->busy_ns,
			l->graph, l->seq, 0);
	if (d->exec.soc && l->plan) {
		struct price p;

		price_graph_load(d->exec.soc, l->plan->weights_bytes, &p);
		memcpy(done->price, &p, sizeof(p));
	}
	exec_arena_take(&d->exec, l->arena, l->arena_bytes);
	l->arena = NULL;
	if (l->plan && l->plan->at.total <= d->exec.arena_bytes) {
		slot->graph = l->plan;
		l->plan = NULL;
		report_held(d, done);
	} else {
		release_held(d, l->weights_bytes);
		d->plans_bytes -= l->plan_bytes;
		d->arena_planned = d->exec.arena_bytes;
		done->status = -ENOMEM;
		snprintf(done->text, sizeof(done->text),
			"graph load: no memory for graph %u", l->graph);
	}
	load_free(l);
	return true;
}

int device_drop_graph(
	struct device *d, uint32_t id, struct wire_done *done, struct err *e)
{
	struct graph_slot *slot = find_graph(d, "graph drop", id, e);

	if (!slot)
		return e->code;
	if (!slot->graph)
		return err_set(
			e, ENOENT, "graph drop: there is no graph %u", id);
	d->plans_bytes -= slot->graph->plan_bytes;
	release_held(d, slot->graph->weights_bytes);
	report_held(d, done);
	free(slot->graph);
	slot->graph = NULL;
	return 0;
}

int device_run_graph(struct device *d, const struct packet *p,
	struct wire_done *done, struct err *e)
{
	struct wire_graph_run run;
	struct graph_slot *slot;
	struct binding b;
	int ret;

	memcpy(&run, p->msg, sizeof(run));
	slot = find_graph(d, "graph run", run.graph, e);
	if (!slot)
		return e->code;
	if (!slot->graph)
		return err_set(e, ENOENT, "graph run: there is no graph %u",
			run.graph);
	if ((ret = rowset_check_run(&run, slot->graph, e)))
		return ret;
	if ((ret = bind_run(
		     &b, d->cache, p->refs, p->n_refs, slot->graph, &run, e)))
		return ret;
	return exec_run(&d->exec, slot->graph, &b, &run, done, e);
}
