/*
 * Packets of any bytes into a device that has buffers mapped and a graph
 * loaded, so that a mutated good packet gets far. An input is
 *
 *   1 byte    coherence level, modulo 3
 *   1 byte    n: how many times 8 bytes go to the rows' place in shared memory
 *   n * 8     those bytes
 *   the rest  packets as they lie in the ring, one behind the other
 *
 * A request that changed the device (map, load ...) is undone by starting
 * another device on the same buffers, so every input meets the same state.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/device/rig.h"

#define EXTRA_ID 3 /* a buffer that is shared and not mapped */

static struct rig rig[COHERENCE_COUNT];
static struct buffer *extra;

static struct rig *rig_at(unsigned level)
{
	struct rig_opts o = {
		.coherence = (enum coherence)level,
		.evict_seed = level,
		.seed = 1,
		.precision = (enum wire_precision)level,
		.bias = true,
		.norms = true,
	};
	struct rig *r = &rig[level];
	struct err e = { 0 };

	if (r->dev)
		return r;
	if (!extra && buffer_create(&extra, "extra", 8192, 0, &e))
		rig_die("extra", e.text);
	rig_open(r, &o);
	rig_share(r, EXTRA_ID, extra);
	return r;
}

static void restart(struct rig *r)
{
	device_close(r->dev);
	rig_start(r);
	rig_share(r, EXTRA_ID, extra);
}

static bool is_lasting(const struct wire_done *done)
{
	return !done->status && done->op != WIRE_NOP &&
		done->op != WIRE_GRAPH_RUN;
}

/* One packet of at most `len` bytes; returns its length. */
static size_t one_packet(
	struct rig *r, const uint8_t *data, size_t len, bool *lasting)
{
	/* Packets lie 8-aligned in the ring, and in the channel's copy. */
	static uint64_t copy[65536];
	struct packet p;
	struct err e;
	size_t n;

	if (len < sizeof(struct wire_header))
		return len;
	n = 8 * (size_t)(data[0] | data[1] << 8);
	if (!n || n > len)
		n = len & ~(size_t)7;
	memcpy(copy, data, n);
	if (packet_parse(copy, n, &p, &e))
		return n;
	if (!device_dispatch(r->dev, &p, &r->done))
		device_loaded(r->dev, true, &p.seq, &r->done);
	if (memchr(r->done.text, '\0', sizeof(r->done.text)) == NULL)
		rig_die("text", "has no end");
	*lasting |= is_lasting(&r->done);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool lasting = false;
	struct rig *r;
	size_t rows;

	if (size < 2)
		return 0;
	r = rig_at(data[0] % COHERENCE_COUNT);
	rows = data[1] * 8u;
	data += 2;
	size -= 2;
	rows = rows < size ? rows : size;
	rig_write(r, RIG_ROWS_OFF, data, rows);
	for (data += rows, size -= rows; size;) {
		size_t n = one_packet(r, data, size, &lasting);

		data += n;
		size -= n;
		if (n < sizeof(struct wire_header))
			break;
	}
	buffer_written_clear(r->io);
	r->n_reports = 0;
	if (lasting)
		restart(r);
	return 0;
}

/* ---- seeds -------------------------------------------------------------- */

struct seed {
	uint8_t *buf;
	size_t len, cap;
};

static void put(struct seed *s, const void *data, size_t len)
{
	if (!len || len > s->cap - s->len)
		return;
	memcpy(s->buf + s->len, data, len);
	s->len += len;
}

static void put_packet(struct seed *s, const struct wire_ref *refs,
	unsigned n_refs, const void *msg, size_t len)
{
	size_t bytes =
		sizeof(struct wire_header) + n_refs * sizeof(*refs) + len;
	struct wire_header h = { .length8 = (uint16_t)(bytes / 8),
		.n_refs = (uint8_t)n_refs,
		.seq = 5 };

	put(s, &h, sizeof(h));
	put(s, refs, n_refs * sizeof(*refs));
	put(s, msg, len);
}

static void put_simple(struct seed *s, uint32_t op, uint32_t arg)
{
	struct wire_simple m = { op, arg };

	put_packet(s, NULL, 0, &m, sizeof(m));
}

/* A run of 4 rows, behind `past` slots; its rows' bytes come first. */
static void put_run(struct seed *s, struct rig *r, uint32_t past)
{
	struct wire_graph_run run = { WIRE_GRAPH_RUN, RIG_GRAPH, 4, 1, 1, 0 };
	struct wire_ref refs[5 + 2 * BUFFER_RANGES];
	uint8_t n = (4 * 16 + 8 + 4 * 8) / 8;
	struct rig_batch b;

	rig_chain(&b, past, 4);
	put(s, &n, 1);
	put(s, b.row, 4 * sizeof(b.row[0]));
	put(s, b.span, sizeof(b.span[0]));
	put(s, b.mask, 4 * sizeof(b.mask[0]));
	rig_write(r, RIG_ROWS_OFF, s->buf + 2, n * 8u);
	put_packet(s, refs, rig_refs(r, refs), &run, sizeof(run));
}

static void put_load(struct seed *s, struct rig *r, uint32_t id)
{
	struct wire_graph_load *g = (void *)r->load;

	g->graph = id;
	put_packet(s, NULL, 0, r->load, sizeof(r->load));
	g->graph = RIG_GRAPH;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	uint8_t level = (uint8_t)(i % COHERENCE_COUNT);
	struct rig *r = rig_at(level);
	struct seed s = { buf, 0, cap };
	struct wire_map map = { WIRE_MAP, EXTRA_ID, buffer_generation(extra),
		0 };
	const uint8_t none = 0;

	put(&s, &level, 1);
	if (i / COHERENCE_COUNT != 0 && i / COHERENCE_COUNT != 1)
		put(&s, &none, 1);
	switch (i / COHERENCE_COUNT) {
	case 0:
		put_run(&s, r, 0);
		break;
	case 1: /* and the graph away behind it */
		put_run(&s, r, 40);
		put_simple(&s, WIRE_GRAPH_DROP, RIG_GRAPH);
		break;
	case 2:
		put_simple(&s, WIRE_NOP, 0);
		put_simple(&s, WIRE_UNMAP, r->kv_at);
		break;
	case 3:
		put_packet(&s, NULL, 0, &map, sizeof(map));
		put_simple(&s, WIRE_UNMAP, r->io_at);
		break;
	case 4:
		put_load(&s, r, 9);
		put_simple(&s, WIRE_GRAPH_DROP, 9);
		break;
	default:
		return 0;
	}
	return s.len;
}
