/*
 * Opening and closing a session: the device process, the shared buffers, the
 * weights cut into blocks, where these are to be, and the graphs built on them.
 */
#include "host/session/session_impl.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/workers.h"
#include "flash/image.h"
#include "host/memory/placement.h"
#include "host/memory/staging.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "host/npu/launch.h"
#include "host/npu/npu.h"
#include "host/session/batch.h"
#include "host/session/logits.h"
#include "ipc/wire.h"
#include "shm/buffer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAGE       IMAGE_PAGE
#define MIN_BLOCKS 6 /* enough to place and to stream, few to ring for */
#define BLOCK_MAX  (256ull << 20)
#define LEAST_ROWS 8 /* of smaller graphs */

/* With a processor to spare a completion is worth waiting for awake; without
 * one, spinning takes the processor from the device. */
#define SPIN_SPARE_US  5000
#define SPIN_SHARED_US 50

const struct session_opts session_defaults = {
	.prefill_chunk = 128,
	.decode_rows = 1,
	.precision = WIRE_INT8,
	.layout = LAYOUT_UNSAID,
	.coherence = COHERENCE_OFF,
	.doorbell = DOORBELL_POLL,
	.va_window = 3584ull << 20,
	.va_slots = 16,
	.evict_seed = 1,
	.spin_us = -1,
	.stall_ms = 30000,
	.dram_share = 1,
	.stage_slots = 3,
};

static bool kv_f16(const struct session *s)
{
	return s->opts.precision == WIRE_F16 || s->opts.precision == WIRE_NPU;
}

static uint64_t kv_bytes_per_token(const struct session *s)
{
	return 2ull * s->model->n_layer * s->kv_stride;
}

/*
 * The context asked for, or else what is needed of the model's own, as far as
 * the cache's buffer and half of the window hold it.
 */
static int choose_context(struct session *s, struct err *e)
{
	const struct model *m = s->model;
	uint64_t most, fits;

	s->kv_stride = (uint32_t)align_up(
		(uint64_t)m->n_kv_head * m->head_dim * (kv_f16(s) ? 2 : 4),
		COHERENCE_LINE);
	most = BUFFER_MAX / kv_bytes_per_token(s);
	if (s->opts.context > most)
		return err_set(e, EFBIG,
			"a context of %u tokens needs %.0f MiB of key-value "
			"cache, and a shared buffer holds %zu MiB; try --ctx "
			"%llu%s",
			s->opts.context,
			(double)kv_bytes_per_token(s) * s->opts.context /
				(1 << 20),
			BUFFER_MAX >> 20, (unsigned long long)most,
			kv_f16(s) ? ""
				  : " or --precision f16-kv16, which needs "
				    "half");
	s->context = s->opts.context;
	if (s->context)
		return 0;
	fits = s->opts.va_window / 2 / kv_bytes_per_token(s);
	fits = fits < most ? fits : most;
	s->context = fits < m->n_ctx ? (uint32_t)fits : m->n_ctx;
	if (s->opts.context_need && s->opts.context_need < s->context)
		s->context = s->opts.context_need;
	if (!s->context)
		return err_set(e, EFBIG,
			"not even one token's keys and values fit into half "
			"of the window; try a larger --va-window");
	return 0;
}

static int choose_layout(struct session *s, struct err *e)
{
	const struct packed *p = s->model->packed;
	enum layout is = p ? p->layout : LAYOUT_TILES;

	if (s->opts.layout == LAYOUT_UNSAID)
		s->opts.layout = is;
	if (p && s->opts.layout != is)
		return err_set(e, EINVAL,
			"--layout %s, but the flash image is in layout %s and "
			"is used as it is; leave --layout out, or convert the "
			"model file with --layout %s",
			layout_names[s->opts.layout], layout_names[is],
			layout_names[s->opts.layout]);
	s->stats.layout = s->opts.layout;
	return 0;
}

/* The first layers that stay in memory. */
static int choose_resident(struct session *s, struct err *e)
{
	const struct session_opts *o = &s->opts;
	const struct model *m = s->model;
	uint64_t room = o->dram_bytes;

	s->resident = m->n_layer;
	if (!o->dram_bytes && o->dram_share >= 1)
		return 0;
	if (!m->packed)
		return err_set(e, EINVAL,
			"--dram-budget, but this model is no flash image, "
			"whose layers can be streamed; make one with tandem "
			"convert");
	if (!o->dram_bytes) {
		/* 29 % of 100 is 29, not a little less. */
		s->resident = (uint32_t)(o->dram_share * m->n_layer + 1e-6);
		return 0;
	}
	for (s->resident = 0; s->resident < m->n_layer; s->resident++) {
		uint64_t layer = packed_layer_bytes(m->packed, s->resident);

		if (layer > room)
			break;
		room -= layer;
	}
	return 0;
}

/* Ascending, without repetition. */
static void add_graph(struct session *s, uint32_t rows)
{
	if (!s->n_graphs || s->graph_rows[s->n_graphs - 1] < rows)
		s->graph_rows[s->n_graphs++] = rows;
}

static void choose_graphs(struct session *s, uint32_t few, uint32_t many)
{
	for (unsigned halved = MAX_GRAPHS - 2; halved; halved--)
		if (s->opts.smaller_graphs && few >> halved >= LEAST_ROWS)
			add_graph(s, few >> halved);
	add_graph(s, few);
	add_graph(s, many);
	s->max_rows = many;
}

static int check_opts(struct session *s, struct err *e)
{
	const struct session_opts *o = &s->opts;
	uint32_t few = o->decode_rows, many = o->prefill_chunk;
	int ret;

	if (!few || few > WIRE_MAX_ROWS || !many || many > WIRE_MAX_ROWS)
		return err_set(e, EINVAL,
			"graphs of %u and %u rows; 1 to %d are possible", few,
			many, WIRE_MAX_ROWS);
	if (!s->opts.threads)
		s->opts.threads = workers_online();
	if (s->opts.exit_layers >= s->model->n_layer)
		return err_set(e, EINVAL,
			"an exit behind layer %u of a model of %u",
			s->opts.exit_layers, s->model->n_layer);
	if ((ret = choose_layout(s, e)) || (ret = choose_resident(s, e)) ||
		(ret = choose_context(s, e)))
		return ret;
	if (few > s->context)
		few = s->context;
	if (few > many) {
		many = few;
		few = o->prefill_chunk;
	}
	choose_graphs(s, few, many);
	return 0;
}

static int open_npu(struct session *s, struct err *e)
{
	const struct session_opts *o = &s->opts;
	bool spare = workers_online() > o->threads;
	struct wire_hello hello = {
		.doorbell = o->doorbell,
		.coherence = o->coherence,
		.threads = o->threads,
		.va_slots = o->va_slots,
		.va_window = o->va_window,
		.evict_seed = o->evict_seed,
		.spin_us = o->spin_us >= 0 ? (uint32_t)o->spin_us
			: spare            ? SPIN_SPARE_US
					   : SPIN_SHARED_US,
	};
	const struct launch_opts launch = { o->program, o->quiet };

	s->time = &s->own_time;
	if (o->beside) {
		s->npu = o->beside->npu;
		s->time = o->beside->time;
		s->first_graph = o->beside->first_graph +
			o->beside->n_blocks * MAX_GRAPHS;
		return 0;
	}
	s->owns_npu = true;
	return npu_open(&s->npu, o->device, &launch, &hello, o->stall_ms, e);
}

static double mib(uint32_t bytes)
{
	return bytes / (double)(1 << 20);
}

/* -ENOSPC with the device's numbers when the window has no room. */
static int map_buffer(struct session *s, uint32_t id, const struct buffer *b,
	uint32_t *addr, struct err *e)
{
	struct wire_map msg = {
		.op = WIRE_MAP, .buffer = id, .generation = buffer_generation(b)
	};
	const uint32_t *arg;
	struct wire_done done;
	int ret = npu_call(s->npu, &msg, sizeof(msg), &done, e);

	if (ret)
		return ret;
	if (!done.status) {
		*addr = done.arg[WIRE_MAP_ADDR];
		s->stats.bytes_mapped += buffer_bytes(b);
		return 0;
	}
	if (done.status != -ENOSPC && done.status != -ENOMEM)
		return err_set(e, EIO, "the device cannot map %s: %s",
			buffer_name(b), done.text);
	arg = done.arg;
	return err_set(e, ENOSPC,
		"%s (%.1f MiB) does not fit into the device's window of %.1f "
		"MiB: %.1f MiB asked, %.1f MiB free, largest hole %.1f MiB, "
		"%u of %u slots used; try a larger --va-window or --va-slots, "
		"or a smaller --ctx",
		buffer_name(b), (double)buffer_bytes(b) / (1 << 20),
		(double)s->opts.va_window / (1 << 20), mib(arg[WIRE_MAP_ASKED]),
		mib(arg[WIRE_MAP_FREE]), mib(arg[WIRE_MAP_LARGEST]),
		arg[WIRE_MAP_SLOTS_USED], arg[WIRE_MAP_SLOTS]);
}

static int pin(struct session *s, struct pinned *p, const char *name,
	size_t bytes, struct err *e)
{
	uint32_t id;
	int ret = buffer_create(&p->buffer, name, bytes, 0, e);

	if (ret) {
		p->buffer = NULL;
		return ret;
	}
	ret = npu_share(s->npu, p->buffer, &id, e);
	return ret ? ret : map_buffer(s, id, p->buffer, &p->addr, e);
}

static int open_buffers(struct session *s, struct err *e)
{
	size_t hidden = (size_t)s->max_rows * s->model->n_embd * sizeof(float);
	int ret;

	s->stats.kv_bytes = kv_bytes_per_token(s) * s->context;
	ret = pin(s, &s->kv, "kv", s->stats.kv_bytes, e);
	if (ret)
		return ret;
	s->hidden_off = align_up(batch_bytes(s->max_rows), COHERENCE_LINE);
	return pin(s, &s->io, "io",
		s->hidden_off + align_up(hidden, COHERENCE_LINE), e);
}

static int map_block(void *arg, uint32_t block, uint32_t *addr, struct err *e)
{
	struct session *s = arg;

	return map_buffer(
		s, s->weights_id[block], s->block[block].buffer, addr, e);
}

/* Whatever still reads the block must be through first. */
static int unmap_block(void *arg, uint32_t block, uint32_t addr, struct err *e)
{
	struct session *s = arg;
	struct wire_simple msg = { .op = WIRE_UNMAP, .arg = addr };
	struct wire_done done;
	int ret = npu_drain(s->npu, e);

	if (!ret)
		ret = npu_call(s->npu, &msg, sizeof(msg), &done, e);
	if (ret)
		return ret;
	if (done.status)
		return err_set(e, EIO, "the device cannot unmap %s: %s",
			buffer_name(s->block[block].buffer), done.text);
	s->stats.bytes_mapped -= buffer_bytes(s->block[block].buffer);
	return 0;
}

/* What every pass reads its layers into, mapped for good like the cache. */
static int open_staging(struct session *s, struct err *e)
{
	const struct model *m = s->model;
	struct staging_opts o = {
		.first_layer = s->resident,
		.n_layers = m->n_layer - s->resident,
		.slots = s->opts.stage_slots,
		.head_bytes = weights_head_bytes(m),
		.stream = s->opts.stream,
		.soc = s->opts.soc,
		.time = s->time,
	};
	int ret;

	if (!o.n_layers)
		return 0;
	if (s->opts.flash_fault) {
		ret = flash_fault_parse(&s->fault, s->opts.flash_fault, e);
		if (ret)
			return ret;
		o.stream.fault = s->fault;
	}
	ret = staging_open(&s->staging, m->packed->image, &o, e);
	for (unsigned i = 0; i < o.slots && !ret; i++) {
		struct buffer *b = staging_buffer(s->staging, i);
		uint32_t id;

		weights_fill_head(
			m, buffer_begin(b, 0, o.head_bytes, BUFFER_WRITE));
		buffer_end(b, 0, o.head_bytes, BUFFER_WRITE);
		ret = npu_share(s->npu, b, &id, e);
		if (!ret)
			ret = map_buffer(s, id, b, &s->stage[i].addr, e);
	}
	return ret;
}

/* A third of what is left of the window, so that one block can run while
 * another arrives and holes still leave room. */
static uint64_t block_limit(const struct session *s)
{
	uint64_t taken = buffer_bytes(s->kv.buffer) +
		buffer_bytes(s->io.buffer) + 4 * PAGE;
	uint64_t left;

	for (unsigned i = 0; s->staging && i < s->opts.stage_slots; i++)
		taken += buffer_bytes(staging_buffer(s->staging, i)) + 2 * PAGE;
	left = taken < s->opts.va_window ? s->opts.va_window - taken : 0;

	return left / 3 < BLOCK_MAX ? left / 3 : BLOCK_MAX;
}

static uint32_t resident_blocks(const struct session *s)
{
	uint32_t n = 0;

	while (n < s->n_blocks && !s->block[n].streamed)
		n++;
	return n;
}

static int open_weights(struct session *s, struct err *e)
{
	struct placement_window window = { map_block, unmap_block, s };
	struct weights_plan plan = {
		.layout = s->opts.layout,
		.strip_max = npu_welcome(s->npu)->tcm_share,
		.want = MIN_BLOCKS,
		.limit = block_limit(s),
		.resident = s->resident,
		.cut = s->opts.exit_layers,
	};
	int ret = weights_cut(s->model, &plan, &s->block, &s->n_blocks, e);

	if (ret)
		return ret;
	s->weights_id = calloc(s->n_blocks, sizeof(*s->weights_id));
	if (!s->weights_id)
		return err_set(
			e, ENOMEM, "no memory for %u blocks", s->n_blocks);
	ret = weights_load(s->model, s->workers, s->block, s->n_blocks,
		&s->opts.progress, e);
	for (uint32_t i = 0; i < s->n_blocks && !ret; i++) {
		s->stats.weight_bytes += s->block[i].bytes;
		if (s->block[i].streamed)
			continue;
		ret = npu_share(
			s->npu, s->block[i].buffer, &s->weights_id[i], e);
	}
	if (!ret)
		ret = placement_open(
			&s->placement, resident_blocks(s), &window, e);
	return ret ? ret : placement_fill(s->placement, e);
}

static struct wire_model wire_model(const struct session *s)
{
	const struct model *m = s->model;

	return (struct wire_model){
		.n_embd = m->n_embd,
		.n_head = m->n_head,
		.n_kv_head = m->n_kv_head,
		.head_dim = m->head_dim,
		.n_rot = m->n_rot,
		.n_ff = m->n_ff,
		.rope_neox = m->rope_neox,
		.precision = s->opts.precision,
		.norm_eps = m->norm_eps,
		.attn_scale = (float)(1 / sqrt(m->head_dim)),
		.kv_slots = s->context,
		.kv_stride = s->kv_stride,
	};
}

static int load_graph(
	struct session *s, uint32_t block, uint32_t kind, struct err *e)
{
	const struct block *b = &s->block[block];
	size_t tensors = b->n_layers * sizeof(*b->tensor);
	struct wire_graph_load *msg = malloc(sizeof(*msg) + tensors);
	int ret;

	if (!msg)
		return err_set(e, ENOMEM, "no memory for a graph");
	*msg = (struct wire_graph_load){ .op = WIRE_GRAPH_LOAD,
		.graph = graph_id(s, block, kind),
		.rows = s->graph_rows[kind],
		.first_layer = b->first_layer,
		.n_layers = b->n_layers,
		.weights_bytes = b->bytes,
		.model = wire_model(s),
		.rope_freq = b->rope_freq };
	memcpy(msg + 1, b->tensor, tensors);
	ret = npu_send(s->npu, NULL, 0, msg, sizeof(*msg) + tensors, NULL, e);
	free(msg);
	return ret;
}

static int open_graphs(struct session *s, struct err *e)
{
	for (uint32_t b = 0; b < s->n_blocks; b++) {
		for (uint32_t k = 0; k < s->n_graphs; k++) {
			int ret = load_graph(s, b, k, e);

			if (ret)
				return ret;
		}
	}
	return npu_drain(s->npu, e);
}

static int open_rows(struct session *s, struct err *e)
{
	uint32_t n = s->max_rows;

	s->parent = calloc(n, sizeof(*s->parent));
	s->identity = calloc(n, sizeof(*s->identity));
	s->place = calloc(n, sizeof(*s->place));
	s->keep = calloc(n, sizeof(*s->keep));
	s->kept_token = calloc(n, sizeof(*s->kept_token));
	s->kept_parent = calloc(n, sizeof(*s->kept_parent));
	if (!s->parent || !s->identity || !s->place || !s->keep ||
		!s->kept_token || !s->kept_parent)
		return err_set(e, ENOMEM, "no memory for %u rows", n);
	for (uint32_t i = 0; i < n; i++)
		s->identity[i] = i;
	return 0;
}

/* Whose requests these are, when nothing of another model is under way. */
static int open_phone(struct session *s, struct err *e)
{
	npu_watch(s->npu, NULL, NULL);
	return s->opts.soc && s->owns_npu
		? npu_price_for(s->npu, s->opts.soc, e)
		: 0;
}

static void session_free(struct session *s)
{
	if (s->owns_npu)
		npu_close(s->npu);
	else if (s->npu)
		npu_watch(s->npu, NULL, NULL); /* it may be us */
	placement_close(s->placement);
	staging_close(s->staging);
	flash_fault_free(s->fault);
	weights_release(s->block, s->n_blocks);
	buffer_close(s->kv.buffer);
	buffer_close(s->io.buffer);
	logits_close(s->logits);
	workers_close(s->workers);
	free(s->weights_id);
	free(s->parent);
	free(s->identity);
	free(s->place);
	free(s->keep);
	free(s->kept_token);
	free(s->kept_parent);
	free(s);
}

int session_open(struct session **out, const struct model *m,
	const struct session_opts *opts, struct err *e)
{
	struct session *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return err_set(e, ENOMEM, "no memory for a session");
	s->model = m;
	s->opts = *opts;
	if ((ret = check_opts(s, e)) || (ret = open_rows(s, e)) ||
		(ret = workers_open(&s->workers, s->opts.threads, e)) ||
		(ret = logits_open(&s->logits, m, s->opts.layout,
			 s->opts.precision, s->workers, e)) ||
		(ret = open_npu(s, e)) || (ret = open_buffers(s, e)) ||
		(ret = open_staging(s, e)) || (ret = open_weights(s, e)) ||
		(ret = open_graphs(s, e)) || (ret = open_phone(s, e)) ||
		(ret = s->staging ? staging_start(s->staging, e) : 0)) {
		session_free(s);
		return ret;
	}
	*out = s;
	return 0;
}

int session_close(struct session *s, struct err *e)
{
	struct npu_stats st;
	int ret = 0;

	if (!s)
		return 0;
	npu_stats(s->npu, &st);
	if (st.violations)
		ret = err_set(e, EPROTO,
			"%llu violation%s of the coherence contract; the "
			"first: %s",
			(unsigned long long)st.violations,
			st.violations == 1 ? "" : "s",
			st.violation[0] ? st.violation : "not told");
	session_free(s);
	return ret;
}
