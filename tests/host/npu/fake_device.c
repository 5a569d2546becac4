#include "tests/host/npu/fake_device.h"

#include "base/checked.h"
#include "host/npu/npu.h"
#include "ipc/channel.h"
#include "shm/buffer.h"
#include "tensor/dtype.h"
#include "tests/host/npu/fake_compute.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FAKE_PAGE     4096
#define FAKE_MAPPINGS 64
#define FAKE_QUEUE    64

struct fake_shared {
	uint8_t *mem;
	uint64_t bytes;
	uint32_t generation;
};

struct fake_mapping {
	uint32_t addr, buffer;
	uint64_t span;
};

struct fake_request {
	uint32_t seq;
	unsigned n_refs;
	struct wire_ref refs[WIRE_MAX_REFS];
	size_t len;
	void *msg;
};

/* One device. A loss discards all of this state. */
struct fake_device {
	struct fake *fake;
	struct wire_hello hello;
	bool lost;
	struct fake_shared shared[WIRE_MAX_BUFFERS];
	struct fake_mapping map[FAKE_MAPPINGS]; /* sorted by address */
	unsigned n_mapped;
	struct wire_graph_load *graph[WIRE_MAX_GRAPHS];
	struct fake_request queue[FAKE_QUEUE];
	unsigned first, waiting;
	/* Delayed loads, the oldest first. */
	struct fake_request loading[FAKE_QUEUE];
	/* overdue: number of requests that were answered since the previous
	 * delayed load was answered or, before that, since the device began */
	unsigned n_loading, overdue;
	/* held: number of graphs, including those being loaded; most_held:
	 * maximum of `held` */
	uint32_t held, most_held;
	uint32_t next_seq;
	/* The most recent answer. It must be sent answer.times more times
	 * before the next request is answered. */
	struct fake_answer answer;
	struct fake_run run;
};

/* ---- memory -------------------------------------------------------------- */

static int fake_share(
	void *device, uint32_t id, const struct buffer *b, struct err *e)
{
	struct fake_device *d = device;
	struct fake_shared *s = &d->shared[id];

	if (d->lost)
		return err_set(e, ERR_DEVICE_LOST, "the fake device is lost");
	s->bytes = buffer_bytes(b);
	s->generation = buffer_generation(b);
	s->mem = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		buffer_fd(b), 0);
	return s->mem == MAP_FAILED ? err_sys(e, errno, "fake mmap") : 0;
}

/* Returns the memory of [addr, addr + len) if one mapping contains it, else
 * NULL. */
static uint8_t *fake_at(
	const struct fake_device *d, uint32_t addr, uint64_t len)
{
	for (unsigned i = 0; i < d->n_mapped; i++) {
		const struct fake_mapping *m = &d->map[i];
		const struct fake_shared *s = &d->shared[m->buffer];

		if (addr >= m->addr && addr - m->addr + len <= s->bytes)
			return s->mem + (addr - m->addr);
	}
	return NULL;
}

int fake_refuse(struct wire_done *done, int status, const char *why)
{
	done->status = status;
	snprintf(done->text, sizeof(done->text), "%s", why);
	return status;
}

/* Map a buffer at the first gap that is large enough. The page at address 0 and
 * one page after each mapping are guards. */
static void fake_map(struct fake_device *d, const struct wire_map *msg,
	struct wire_done *done)
{
	const struct fake_shared *s = &d->shared[msg->buffer];
	uint64_t span = align_up(s->bytes, FAKE_PAGE);
	uint64_t at = FAKE_PAGE, free = 0, largest = 0, found = 0;
	unsigned where = 0;

	for (unsigned i = 0; i <= d->n_mapped; i++) {
		uint64_t end =
			i < d->n_mapped ? d->map[i].addr : d->hello.va_window;

		if (!found && end - at >= span + FAKE_PAGE) {
			found = at;
			where = i;
		}
		free += end - at;
		largest = end - at > largest ? end - at : largest;
		if (i < d->n_mapped)
			at = d->map[i].addr + d->map[i].span + FAKE_PAGE;
	}
	done->arg[WIRE_MAP_ASKED] = (uint32_t)(span + FAKE_PAGE);
	done->arg[WIRE_MAP_FREE] = (uint32_t)free;
	done->arg[WIRE_MAP_LARGEST] = (uint32_t)largest;
	done->arg[WIRE_MAP_SLOTS_USED] = d->n_mapped;
	done->arg[WIRE_MAP_SLOTS] = d->hello.va_slots;
	if (!s->mem || s->generation != msg->generation) {
		fake_refuse(done, -EINVAL, "no such buffer");
		return;
	}
	if (!found || d->n_mapped == d->hello.va_slots ||
		d->n_mapped == FAKE_MAPPINGS) {
		fake_refuse(done, -ENOSPC, "no room");
		return;
	}
	memmove(&d->map[where + 1], &d->map[where],
		(d->n_mapped++ - where) * sizeof(d->map[0]));
	d->map[where] =
		(struct fake_mapping){ (uint32_t)found, msg->buffer, span };
	done->arg[WIRE_MAP_ADDR] = (uint32_t)found;
}

static void fake_unmap(
	struct fake_device *d, uint32_t addr, struct wire_done *done)
{
	for (unsigned i = 0; i < d->n_mapped; i++) {
		if (d->map[i].addr != addr)
			continue;
		d->n_mapped--;
		memmove(&d->map[i], &d->map[i + 1],
			(d->n_mapped - i) * sizeof(d->map[0]));
		return;
	}
	fake_refuse(done, -EINVAL, "nothing is mapped there");
}

/* ---- graphs -------------------------------------------------------------- */

static void fake_brackets_find(
	const struct fake_device *d, struct wire_done *done)
{
	done->arg[WIRE_GRAPHS_HELD] = d->held;
	done->arg[WIRE_GRAPHS_MOST] = d->most_held;
}

static void fake_load(struct fake_device *d, const struct fake_request *q,
	struct wire_done *done)
{
	const struct wire_graph_load *g = q->msg;
	const struct wire_tensor *t = (const void *)(g + 1);

	if (g->graph >= WIRE_MAX_GRAPHS || d->graph[g->graph]) {
		fake_refuse(done, -EINVAL, "the graph's number is taken");
		return;
	}
	for (unsigned i = 0; i < g->n_layers * WIRE_T_COUNT; i++)
		if (t[i].cols > FAKE_WIDTH || t[i].rows > FAKE_WIDTH ||
			!dtype_info(t[i].type)) {
			fake_refuse(done, -EOPNOTSUPP,
				"a tensor of a fake device lies in rows and is "
				"small");
			return;
		}
	d->graph[g->graph] = malloc(q->len);
	memcpy(d->graph[g->graph], g, q->len);
	fake_brackets_find(d, done);
}

static void fake_drop(
	struct fake_device *d, uint32_t graph, struct wire_done *done)
{
	if (graph >= WIRE_MAX_GRAPHS || !d->graph[graph]) {
		fake_refuse(done, -ENOENT, "no such graph to drop");
		return;
	}
	free(d->graph[graph]);
	d->graph[graph] = NULL;
	d->held--;
	fake_brackets_find(d, done);
}

static const struct wire_ref *fake_ref(
	const struct fake_request *q, enum wire_role role)
{
	for (unsigned i = 0; i < q->n_refs; i++)
		if (q->refs[i].role == role)
			return &q->refs[i];
	return NULL;
}

static void *fake_bound(struct fake_device *d, const struct fake_request *q,
	enum wire_role role, uint64_t least)
{
	const struct wire_ref *ref = fake_ref(q, role);

	return ref && ref->len >= least ? fake_at(d, ref->addr, ref->len)
					: NULL;
}

static void fake_graph_run(struct fake_device *d, const struct fake_request *q,
	struct wire_done *done)
{
	const struct wire_graph_run *run = q->msg;
	struct fake_run *r = &d->run;
	const struct wire_graph_load *g;
	size_t hidden, batch;
	float *in, *out;

	if (run->graph >= WIRE_MAX_GRAPHS || !d->graph[run->graph] ||
		run->rows > d->graph[run->graph]->rows ||
		run->rows > FAKE_ROWS) {
		fake_refuse(done, -EINVAL, "no such graph, or too many rows");
		return;
	}
	g = d->graph[run->graph];
	hidden = (size_t)run->rows * g->model.n_embd * sizeof(float);
	batch = run->rows * sizeof(struct wire_row) +
		run->n_spans * sizeof(struct wire_span) +
		(size_t)run->rows * run->mask_words * sizeof(uint64_t);
	r->graph = g;
	r->run = run;
	r->weights = fake_bound(d, q, WIRE_REF_WEIGHTS, g->weights_bytes);
	r->kv = fake_bound(d, q, WIRE_REF_KV,
		2ull * (g->first_layer + g->n_layers) * g->model.kv_slots *
			g->model.kv_stride);
	in = fake_bound(d, q, WIRE_REF_HIDDEN_IN, hidden);
	out = fake_bound(d, q, WIRE_REF_HIDDEN_OUT, hidden);
	r->row = fake_bound(d, q, WIRE_REF_ROWS, batch);
	if (!r->weights || !r->kv || !in || !out || !r->row) {
		fake_refuse(done, -EFAULT, "a reference to nothing mapped");
		return;
	}
	r->span = (const void *)(r->row + run->rows);
	r->mask = (const void *)(r->span + run->n_spans);
	fake_compute(r, in, out);
	if (d->fake->spoil)
		d->fake->spoil(d->fake, out, run->rows, g->model.n_embd);
}

/* ---- requests ------------------------------------------------------------ */

static void fake_answer_to(struct fake_device *d, const struct fake_request *q)
{
	const struct wire_simple *simple = q->msg;
	struct fake_answer *a = &d->answer;
	struct wire_done *done = &a->done;

	*a = (struct fake_answer){
		.len = sizeof(*done), .seq = q->seq, .times = 1
	};
	done->op = simple->op;
	if (simple->op == WIRE_MAP)
		fake_map(d, q->msg, done);
	else if (simple->op == WIRE_UNMAP)
		fake_unmap(d, simple->arg, done);
	else if (simple->op == WIRE_GRAPH_LOAD)
		fake_load(d, q, done);
	else if (simple->op == WIRE_GRAPH_DROP)
		fake_drop(d, simple->arg, done);
	else if (simple->op == WIRE_GRAPH_RUN)
		fake_graph_run(d, q, done);
	else if (simple->op != WIRE_NOP && simple->op != WIRE_SOC)
		fake_refuse(done, -EINVAL, "no such operation");
	d->fake->answered++;
	if (d->fake->forge)
		d->fake->forge(d->fake, q->msg, a);
}

static int fake_lost(struct err *e)
{
	return err_set(e, ERR_DEVICE_LOST, "the fake device is lost");
}

static int fake_send(void *device, const struct wire_ref *refs, unsigned n_refs,
	const void *msg, size_t len, uint32_t *seq, struct err *e)
{
	struct fake_device *d = device;
	struct fake_request *q =
		&d->queue[(d->first + d->waiting) % FAKE_QUEUE];

	if (d->lost)
		return fake_lost(e);
	if (d->waiting == FAKE_QUEUE)
		return err_set(e, EOVERFLOW, "the fake device's ring is full");
	d->waiting++;
	if (d->waiting > d->fake->most_under_way)
		d->fake->most_under_way = d->waiting;
	*seq = q->seq = d->next_seq++;
	q->n_refs = n_refs;
	if (n_refs)
		memcpy(q->refs, refs, n_refs * sizeof(*refs));
	q->len = len;
	q->msg = malloc(len);
	memcpy(q->msg, msg, len);
	return 0;
}

/* Answer the oldest load. */
static void fake_loaded(struct fake_device *d)
{
	fake_answer_to(d, &d->loading[0]);
	free(d->loading[0].msg);
	memmove(&d->loading[0], &d->loading[1],
		--d->n_loading * sizeof(d->loading[0]));
	d->overdue = 0;
}

/* Handle one request, which gives at most one answer. */
static void fake_next(struct fake_device *d)
{
	struct fake_request *q = &d->queue[d->first];
	const uint32_t *op = q->msg;
	bool loads = d->waiting && *op == WIRE_GRAPH_LOAD;

	if (d->n_loading && (!d->waiting || d->overdue >= d->fake->late)) {
		fake_loaded(d);
		return;
	}
	if (loads && ++d->held > d->most_held)
		d->most_held = d->held;
	if (loads && d->fake->late) {
		d->loading[d->n_loading++] = *q;
	} else {
		fake_answer_to(d, q);
		free(q->msg);
		d->overdue++;
	}
	d->first = (d->first + 1) % FAKE_QUEUE;
	d->waiting--;
}

static int fake_recv(
	void *device, struct packet *out, int timeout_ms, struct err *e)
{
	struct fake_device *d = device;
	struct fake_answer *a = &d->answer;

	while (!d->lost && !a->times && (d->waiting || d->n_loading)) {
		fake_next(d);
		d->lost = a->times && d->fake->lives && !--d->fake->lives;
	}
	if (!a->times)
		/* No answer will follow, so a caller that waits for one would
		 * never return. */
		return fake_lost(e);
	a->times--;
	*out = (struct packet){ .seq = a->seq,
		.n_refs = a->n_refs,
		.msg = &a->done,
		.len = a->len };
	return 0;
}

static uint64_t fake_sleeps(const void *device)
{
	return 0;
}

/* ---- opening ------------------------------------------------------------- */

static void fake_close(void *device)
{
	struct fake_device *d = device;

	for (unsigned i = 0; i < WIRE_MAX_BUFFERS; i++)
		if (d->shared[i].mem)
			munmap(d->shared[i].mem, d->shared[i].bytes);
	for (unsigned i = 0; i < WIRE_MAX_GRAPHS; i++)
		free(d->graph[i]);
	for (unsigned i = 0; i < d->n_loading; i++)
		free(d->loading[i].msg);
	for (; d->waiting; d->waiting--, d->first++)
		free(d->queue[d->first % FAKE_QUEUE].msg);
	free(d);
}

int fake_open(void *arg, const struct npu_opts *o, void **device,
	struct wire_welcome *w, struct err *e)
{
	struct fake_device *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(e, ENOMEM, "no memory for a fake device");
	d->fake = arg;
	d->fake->reached++;
	d->hello = o->hello;
	*w = (struct wire_welcome){ .op = WIRE_WELCOME,
		.threads = 1,
		.tcm_bytes = 8 << 20,
		.tcm_share = d->fake->tcm_share,
		.kern = "fake",
		.va_extended = d->fake->va_extended };
	*device = d;
	return 0;
}

void fake_init(struct fake *f)
{
	*f = (struct fake){ .ops = { .open = fake_open,
				    .close = fake_close,
				    .share = fake_share,
				    .send = fake_send,
				    .recv = fake_recv,
				    .sleeps = fake_sleeps,
				    .arg = f },
		.tcm_share = 8 << 20 };
}
