/*
 * Sends packets of arbitrary bytes to a device that has mapped buffers and a
 * loaded graph, so that a mutated valid packet passes many checks. An input is
 *
 *   1 byte    coherence level, modulo 3
 *   1 byte    n, a number of 8-byte words
 *   n * 8     bytes for the rows of a run, in shared memory
 *   the rest  packets as in the ring, one after another
 *
 * After an input the state (maps, graphs) is restored by requests or, if that
 * is not enough, by starting another device on the same buffers, so that every
 * input starts from the same state.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/device/rig.h"

#define EXTRA_ID 3 /* id of a buffer that is shared but not mapped */

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
		.shared = level ? 32 : 0,
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

/* ---- restoring the state ------------------------------------------------- */

#define TOUCHED 64

/*
 * What an input changed. `map` and `graph`: addresses of new mappings and ids
 * of new graphs. `base_unmapped` and `rig_dropped`: a mapping or the graph of
 * the rig was removed. `other`: something that requests cannot restore.
 */
static struct {
	uint32_t map[TOUCHED], graph[TOUCHED];
	unsigned maps, graphs;
	bool base_unmapped, rig_dropped, other;
} touched;

static void restart(struct rig *r)
{
	device_close(r->dev);
	rig_start(r);
	rig_share(r, EXTRA_ID, extra);
}

static bool is_base(const struct rig *r, uint32_t addr)
{
	return addr == r->weights_at || addr == r->kv_at || addr == r->io_at;
}

static void touch(uint32_t *list, unsigned *n, uint32_t what)
{
	if (*n == TOUCHED)
		touched.other = true;
	else
		list[(*n)++] = what;
}

/* Record what a successful request has changed. */
static void note(struct rig *r, const struct packet *p)
{
	struct wire_simple s;

	memcpy(&s, p->msg, sizeof(s)); /* the op and the word after it */
	switch (s.op) {
	case WIRE_MAP:
		touch(touched.map, &touched.maps, r->done.arg[WIRE_MAP_ADDR]);
		break;
	case WIRE_UNMAP:
		touched.base_unmapped |= is_base(r, s.arg);
		break;
	case WIRE_GRAPH_LOAD:
		touch(touched.graph, &touched.graphs, s.arg);
		break;
	case WIRE_GRAPH_DROP:
		touched.rig_dropped |= s.arg == RIG_GRAPH;
		break;
	case WIRE_SOC: /* a profile cannot be removed */
		touched.other = true;
		break;
	}
}

/* Map each buffer at its original address again. Returns false if that
 * fails. */
static bool map_base(struct rig *r)
{
	struct buffer *const b[] = { r->weights, r->kv, r->io };
	const uint32_t at[] = { r->weights_at, r->kv_at, r->io_at };

	for (unsigned i = 0; i < ARRAY_LEN(b); i++)
		rig_simple(r, WIRE_UNMAP, at[i]);
	for (unsigned i = 0; i < ARRAY_LEN(b); i++)
		if (rig_map(r, i, buffer_generation(b[i])) ||
			r->done.arg[WIRE_MAP_ADDR] != at[i])
			return false;
	return true;
}

static void put_back(struct rig *r)
{
	bool good = !touched.other;

	for (unsigned i = 0; i < touched.graphs && good; i++)
		rig_simple(r, WIRE_GRAPH_DROP, touched.graph[i]);
	for (unsigned i = 0; i < touched.maps && good; i++)
		if (touched.base_unmapped || !is_base(r, touched.map[i]))
			rig_simple(r, WIRE_UNMAP, touched.map[i]);
	if (good && touched.base_unmapped)
		good = map_base(r);
	if (good && touched.rig_dropped)
		good = !rig_send(r, NULL, 0, r->load, sizeof(r->load));
	if (!good)
		restart(r);
	memset(&touched, 0, sizeof(touched));
}

/* Whether a request passed the first checks: its refs are in the window, the
 * operation exists, and the length of the message is right. */
static bool is_performed(const struct wire_done *done)
{
	return !done->status ||
		(strncmp(done->text, "ref ", 4) &&
			strncmp(done->text, "op ", 3) &&
			!strstr(done->text, " bytes, must have "));
}

/* Process one packet of at most `len` bytes. Returns its length. */
static size_t one_packet(struct rig *r, const uint8_t *data, size_t len)
{
	/* aligned to 8 bytes, as are packets in the ring and in the channel's
	 * copy */
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
	if (!r->done.status)
		note(r, &p);
	if (is_performed(&r->done))
		fuzz_got_past();
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
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
		size_t n = one_packet(r, data, size);

		data += n;
		size -= n;
		if (n < sizeof(struct wire_header))
			break;
	}
	put_back(r);
	buffer_written_clear(r->io);
	r->n_reports = 0;
	return 0;
}

/* ---- changes that keep the form ----------------------------------------- */

static uint32_t below(const struct fuzz_draw *d, size_t n)
{
	return n ? d->below(d->arg, (uint32_t)n) : 0;
}

/* The end of the packet at `at`, or `len` if the packet's length is
 * impossible. */
static size_t packet_end(const uint8_t *buf, size_t at, size_t len)
{
	size_t n;

	if (len - at < sizeof(struct wire_header))
		return len;
	n = 8 * (size_t)(buf[at] | buf[at + 1] << 8);
	return n < sizeof(struct wire_header) || n > len - at ? len : at + n;
}

/* Choose a packet of the input at random. Returns false if there is no
 * packet. */
static bool choose_packet(const uint8_t *buf, size_t len,
	const struct fuzz_draw *d, size_t *from, size_t *to)
{
	unsigned seen = 0;
	size_t at = 2;

	if (len < 2)
		return false;
	for (at += buf[1] * 8u; at < len; at = packet_end(buf, at, len)) {
		if (below(d, ++seen))
			continue;
		*from = at;
		*to = packet_end(buf, at, len);
	}
	return seen && *to - *from >= sizeof(struct wire_header) + 8;
}

/* Change a word of the refs or of the message: add a number from -4 to 4, or
 * replace the word by a special value, such as the limit of a type, or by
 * another word. */
static void change_word(uint8_t *packet, size_t len, const struct fuzz_draw *d)
{
	uint32_t words = (uint32_t)(len - 8) / 4, v, other;
	uint8_t *at = packet + 8 + 4 * below(d, words);

	memcpy(&v, at, sizeof(v));
	memcpy(&other, packet + 8 + 4 * below(d, words), sizeof(other));
	switch (below(d, 3)) {
	case 0:
		v += below(d, 9) - 4;
		break;
	case 1:
		v = (uint32_t)fuzz_interesting(d);
		break;
	default:
		v = other;
	}
	memcpy(at, &v, sizeof(v));
}

/* Remove or duplicate a ref, and correct the lengths. */
static size_t change_refs(uint8_t *buf, size_t len, size_t cap, size_t from,
	const struct fuzz_draw *d)
{
	const size_t one = sizeof(struct wire_ref);
	uint8_t n = buf[from + 3], *ref;
	uint16_t length8;

	memcpy(&length8, buf + from, sizeof(length8));
	if (!n || n >= WIRE_MAX_REFS || len + one > cap ||
		8 + (n + 1) * one > length8 * 8u ||
		length8 * 8u > len - from) /* the packet is truncated */
		return len;
	ref = buf + from + 8 + below(d, n) * one;
	if (below(d, 2)) {
		memmove(ref, ref + one, len - (size_t)(ref + one - buf));
		buf[from + 3]--;
		length8 = (uint16_t)(length8 - one / 8);
		len -= one;
	} else {
		memmove(ref + one, ref, len - (size_t)(ref - buf));
		buf[from + 3]++;
		length8 = (uint16_t)(length8 + one / 8);
		len += one;
	}
	memcpy(buf + from, &length8, sizeof(length8));
	return len;
}

size_t fuzz_mutate(
	uint8_t *buf, size_t len, size_t cap, const struct fuzz_draw *d)
{
	size_t from = 0, to = 0, n;

	if (!choose_packet(buf, len, d, &from, &to))
		return len;
	n = to - from;
	switch (below(d, 8)) {
	case 0: /* change the rows in shared memory */
		if (buf[1])
			buf[2 +
				below(d,
					buf[1] * 8u < len - 2 ? buf[1] * 8u
							      : len - 2)] ^=
				(uint8_t)(1u << below(d, 8));
		return len;
	case 1: /* duplicate the packet */
		if (n > cap - len || len > 4096)
			return len;
		memmove(buf + to + n, buf + to, len - to);
		memcpy(buf + to, buf + from, n);
		return len + n;
	case 2:
		return change_refs(buf, len, cap, from, d);
	default:
		change_word(buf + from, n, d);
		return len;
	}
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

/* Append a run of 4 rows after `past` cached slots. The bytes of the run's rows
 * come first in the input. */
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

/* Append a run of the expert graph with one expert. The picks of the run begin
 * `at` bytes after the beginning of the rows. */
static void put_expert(struct seed *s, const struct rig *r,
	const struct rig_part *expert, uint32_t at, uint32_t flags)
{
	const struct wire_graph_run run = { WIRE_GRAPH_RUN, expert->g.graph, 4,
		0, 0, flags };
	const struct wire_ref refs[] = {
		{ r->weights_at, expert->g.weights_bytes, WIRE_REF_WEIGHTS, 0,
			0, 0 },
		{ r->io_at + RIG_OUT_OFF, 4 * 64 * 4, WIRE_REF_HIDDEN_OUT, 0, 0,
			0 },
		{ r->io_at + RIG_ROWS_OFF + at, 4 * 2 * 8, WIRE_REF_ROWS, 0, 0,
			0 },
	};

	put_packet(s, refs, ARRAY_LEN(refs), &run, sizeof(run));
}

/* Load the graphs of a layer with experts, and run them on 4 rows. Each of the
 * two expert runs computes one pick of each row. */
static void put_experts(struct seed *s, struct rig *r)
{
	const uint32_t rows = 4 * 16 + 8 + 4 * 8, picks = 4 * 2 * 8;
	const uint8_t n = (uint8_t)((rows + 2 * picks) / 8);
	struct wire_graph_run run = { WIRE_GRAPH_RUN, 9, 4, 1, 1, 0 };
	struct wire_ref refs[5 + 2 * BUFFER_RANGES];
	struct rig_part first, expert;
	struct rig_batch b;

	rig_experts(r, &first, &expert, 4, 2, DTYPE_F32);
	first.g.graph = 9;
	expert.g.graph = 10;
	rig_chain(&b, 0, 4);
	put(s, &n, 1);
	put(s, b.row, 4 * sizeof(b.row[0]));
	put(s, b.span, sizeof(b.span[0]));
	put(s, b.mask, 4 * sizeof(b.mask[0]));
	for (unsigned i = 0; i < 2 * 4 * 2; i++) {
		bool now = i % 2 == i / 8;
		struct wire_pick pick = { now ? 0 : WIRE_PICK_ELSEWHERE, 0.5f };

		put(s, &pick, sizeof(pick));
	}
	rig_write(r, RIG_ROWS_OFF, s->buf + 2, n * 8u);
	put_packet(s, NULL, 0, &first, sizeof(first));
	put_packet(s, NULL, 0, &expert, sizeof(expert));
	put_packet(s, refs, rig_refs(r, refs), &run, sizeof(run));
	put_expert(s, r, &expert, rows, WIRE_RUN_MORE);
	put_expert(s, r, &expert, rows + picks, 0);
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
	if (i / COHERENCE_COUNT >= 3)
		put(&s, &none, 1);
	switch (i / COHERENCE_COUNT) {
	case 0:
		put_run(&s, r, 0);
		break;
	case 1: /* run the graph, then drop it */
		put_run(&s, r, 40);
		put_simple(&s, WIRE_GRAPH_DROP, RIG_GRAPH);
		break;
	case 2:
		put_experts(&s, r);
		break;
	case 3:
		put_simple(&s, WIRE_NOP, 0);
		put_simple(&s, WIRE_UNMAP, r->kv_at);
		break;
	case 4:
		put_packet(&s, NULL, 0, &map, sizeof(map));
		put_simple(&s, WIRE_UNMAP, r->io_at);
		break;
	case 5:
		put_load(&s, r, 9);
		put_simple(&s, WIRE_GRAPH_DROP, 9);
		break;
	default:
		return 0;
	}
	return s.len;
}
