/*
 * Tests a device in a separate process, as in production, with a hostile host.
 * The packets are valid packets, valid packets with some words changed, and
 * random bytes; in every other run of the device a third process changes bytes
 * of the ring and of the shared buffers after they were published. Each packet
 * must get one completion with its number, and a text if it failed, or the
 * device must end by itself with an error message. The device must never die of
 * a signal and never hang.
 *
 * The environment variable TANDEM_HOSTILE_PACKETS sets the number of packets
 * (default: 4000); TANDEM_SEED repeats a run.
 */
#include "tests/device/served.h"

#include "base/checked.h"
#include "base/rng.h"
#include "shm/coherence/tandem_coherence.h"
#include "shm/doorbell.h"
#include "tensor/soc/soc.h"
#include "tests/device/raw_host.h"
#include "tests/device/rig.h"

#include <dirent.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* largest number of packets in a life, one run of the device */
#define LIFE    1500
#define BATCH   24
#define WAIT_MS 20000
#define BUFFERS 3

struct tally {
	uint64_t packets, answered, good, failed, lives, ends;
};

struct life {
	uint64_t seed, stream, at; /* arguments of rng_words */
	struct raw_host raw;
	struct rig *rig;
	struct wire_hello hello;
	pid_t pid;
	int bells[2], own[2]; /* ends of the doorbells: the device's, ours */
	uint32_t address[BUFFERS];       /* initial addresses of the buffers */
	uint32_t seq, expect[BATCH + 1]; /* numbers of requests in flight */
	uint32_t op[BATCH + 1];
	unsigned n_expect;
	bool scribbled, gone;
	struct tally *tally;
};

static uint32_t draw(struct life *l, uint32_t below)
{
	uint32_t w[4];

	rng_words(l->seed, l->stream, l->at++, w);
	return w[0] % below;
}

/* Draw a small number, a power of two plus -2 to 2, an address in or near a
 * buffer, or any number. */
static uint32_t draw_word(struct life *l)
{
	switch (draw(l, 4)) {
	case 0:
		return draw(l, 70);
	case 1:
		return (1u << draw(l, 32)) + draw(l, 5) - 2;
	case 2:
		return l->address[draw(l, BUFFERS)] + draw(l, 4) * 4096;
	default:
		return draw(l, UINT32_MAX);
	}
}

/* ---- the packets ----------------------------------------------------------
 */

struct made {
	uint64_t words[2048];
	size_t len; /* bytes, the header included */
};

static void put(struct made *m, const void *data, size_t len)
{
	memcpy((uint8_t *)m->words + m->len, data, len);
	m->len += len;
}

static void put_words(struct made *m, const uint32_t *w, unsigned n)
{
	put(m, w, n * sizeof(*w));
}

static unsigned put_run(struct life *l, struct made *m)
{
	uint32_t rows = 1 + draw(l, 4);
	struct wire_graph_run run = { WIRE_GRAPH_RUN, RIG_GRAPH, rows, 1, 1,
		0 };
	struct wire_ref ref[5 + 2 * BUFFER_RANGES];
	float in[4 * 64] = { 0.5f };
	struct rig_batch b;
	unsigned n;

	rig_chain(&b, draw(l, RIG_SLOTS - 4), rows);
	rig_put(l->rig, &b, in);
	n = rig_refs(l->rig, ref);
	put(m, ref, n * sizeof(*ref));
	put(m, &run, sizeof(run));
	return n;
}

static void put_load(struct life *l, struct made *m)
{
	struct wire_graph_load g;

	memcpy(&g, l->rig->load, sizeof(g));
	g.graph = draw(l, RIG_GRAPH + 1);
	g.rows = 1 + draw(l, RIG_ROWS);
	put(m, &g, sizeof(g));
	put(m, l->rig->load + sizeof(g), sizeof(l->rig->load) - sizeof(g));
}

static void put_map(struct life *l, struct made *m)
{
	uint32_t id = draw(l, BUFFERS + 1);
	struct wire_map map = { WIRE_MAP, id,
		draw(l, 4) ? id + 1 : draw_word(l), 0 };

	put(m, &map, sizeof(map));
}

static void put_soc(struct life *l, struct made *m)
{
	struct wire_soc msg = { WIRE_SOC, SOC_COUNT };
	double one = 1;

	put(m, &msg, sizeof(msg));
	for (size_t i = 0; i < SOC_COUNT; i++)
		put(m, &one, sizeof(one));
}

static void put_noise(struct life *l, struct made *m)
{
	uint32_t n = 2 + 2 * draw(l, 40);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t w = i ? draw_word(l) : draw(l, WIRE_OP_COUNT + 2);

		put_words(m, &w, 1);
	}
}

static void put_simple(struct life *l, struct made *m)
{
	static const uint32_t ops[] = { WIRE_NOP, WIRE_NOP, WIRE_GRAPH_DROP,
		WIRE_GRAPH_DROP, WIRE_UNMAP };
	uint32_t w[2] = { ops[draw(l, ARRAY_LEN(ops))], 0 };

	/* Mostly choose an argument below RIG_GRAPH, which names no graph and
	 * no mapping. So the graph and the mappings that the runs use remain
	 * for some hundred packets. */
	w[1] = draw(l, 40) ? draw(l, RIG_GRAPH) : draw_word(l);
	put_words(m, w, 2);
}

/*
 * Change one word of a packet, and sometimes its flags or its number of refs.
 * The packet's number does not change, because it identifies the completion;
 * nor does the length, because the ring checks it.
 */
static void spoil(struct life *l, struct made *m)
{
	uint32_t w = draw_word(l);
	size_t at = 8 + draw(l, (uint32_t)(m->len - 11));

	if (draw(l, 2))
		at &= ~(size_t)3;
	memcpy((uint8_t *)m->words + at, &w, sizeof(w));
	if (!draw(l, 6))
		((uint8_t *)m->words)[2 + draw(l, 2)] = (uint8_t)draw(l, 80);
}

static void make(struct life *l, struct made *m)
{
	struct wire_header h = { .seq = ++l->seq };
	unsigned n_refs = 0;

	m->len = sizeof(h);
	memset(m->words, 0, sizeof(h));
	switch (draw(l, 8)) {
	case 0:
	case 1:
		n_refs = put_run(l, m);
		break;
	case 2:
		put_load(l, m);
		break;
	case 3:
		put_map(l, m);
		break;
	case 4:
		put_soc(l, m);
		break;
	case 5:
		put_noise(l, m);
		break;
	default:
		put_simple(l, m);
	}
	h.length8 = (uint16_t)(m->len / 8);
	h.n_refs = (uint8_t)n_refs;
	memcpy(m->words, &h, sizeof(h));
	for (uint32_t n = draw(l, 2) ? draw(l, 4) : 0; n; n--)
		spoil(l, m);
}

/* Returns the operation of the packet's message, or 0 if the packet is too
 * short or has invalid flags or numbers of refs. */
static uint32_t op_of(const struct made *m)
{
	const uint8_t *p = (const uint8_t *)m->words;
	size_t at = 8 + p[3] * sizeof(struct wire_ref);
	uint32_t op = 0;

	if (!p[2] && p[3] <= WIRE_MAX_REFS && at + sizeof(op) <= m->len)
		memcpy(&op, p + at, sizeof(op));
	return op;
}

/* ---- completions -----------------------------------------------------------
 */

static void ring_bell(struct life *l)
{
	uint64_t one = 1;

	if (l->hello.doorbell == DOORBELL_POLL)
		syscall(SYS_futex, &l->raw.tx.shared->tail, FUTEX_WAKE, 1, NULL,
			NULL, 0);
	else
		(void)!write(l->own[0], &one,
			l->hello.doorbell == DOORBELL_EVENTFD ? 8 : 1);
}

static void check_completion(
	struct life *l, uint32_t seq, const struct wire_done *done)
{
	unsigned i;

	if (!memchr(done->text, '\0', sizeof(done->text)))
		fail_msg("the text of %u has no end", seq);
	if (done->status > 0 || done->status < -4095)
		fail_msg("request %u has status %d", seq, done->status);
	if (done->status && !done->text[0])
		fail_msg("request %u fails with %d and no word", seq,
			done->status);
	l->tally->answered++;
	l->tally->good += !done->status;
	l->tally->failed += !!done->status;
	if (l->scribbled)
		return;
	for (i = 0; i < l->n_expect && l->expect[i] != seq; i++)
		;
	if (i == l->n_expect)
		fail_msg("an answer to %u, which was not asked", seq);
	if (done->status != -EBADMSG && done->op != l->op[i])
		fail_msg("request %u is op %u, its answer's is %u", seq,
			l->op[i], done->op);
	l->n_expect--;
	l->expect[i] = l->expect[l->n_expect];
	l->op[i] = l->op[l->n_expect];
}

/* Check that the device consumes published packets or has ended. */
static void is_alive(struct life *l)
{
	uint64_t until = clock_ns() + WAIT_MS * 1000000ull;
	_Atomic uint32_t *head = &l->raw.tx.shared->head;
	uint32_t was = atomic_load(head), seq;
	struct wire_done done;
	int ret = raw_simple(&l->raw, ++l->seq, WIRE_NOP, 0);

	/* If the ring's index words were changed, sending is impossible. */
	if (ret && ret != -EAGAIN)
		return;
	ring_bell(l);
	while (atomic_load(head) == was && !link_hung_up(l->raw.link)) {
		if (clock_ns() > until)
			fail_msg("the device hangs (life %llu)",
				(unsigned long long)l->stream);
		/* The device may wait for space in the completion ring. */
		raw_take(&l->raw, &seq, &done, 1);
	}
}

/*
 * Receive all completions that are due. If packets were changed after they were
 * published, the number of due completions is unknown: receive until no more
 * completions arrive.
 */
static void collect(struct life *l)
{
	uint64_t until = clock_ns() + WAIT_MS * 1000000ull;
	struct wire_done done;
	uint32_t seq;
	int ret = 0;

	while (!ret || (ret == -EAGAIN && !l->scribbled && l->n_expect)) {
		if (clock_ns() > until)
			fail_msg("%u requests without an answer for %d s, "
				 "from %u on",
				l->n_expect, WAIT_MS / 1000, l->expect[0]);
		ret = raw_take(&l->raw, &seq, &done, 1);
		if (!ret)
			check_completion(l, seq, &done);
	}
	/* The device may have ended because the other process changed the index
	 * words of the request ring. */
	l->gone = ret != -EAGAIN;
	if (l->gone && !l->scribbled)
		fail_msg("the device ended before request %u was answered",
			l->expect[0]);
}

/* ---- one run of the device --------------------------------------------------
 */

/* Change bytes of requests just published, of the memory that requests refer
 * to, and rarely of a ring's index words. The parent kills this process. */
static void scribble(struct life *l)
{
	struct ring_shared *r = l->raw.tx.shared;
	uint8_t *io = buffer_begin(l->rig->io, 0, RIG_IO_BYTES, BUFFER_READ);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	l->stream += 1000000;
	for (;;) {
		uint32_t tail = atomic_load(&r->tail);
		uint32_t at = (tail - 1 - draw(l, 600)) & (RAW_RING - 1);
		volatile uint8_t *p = r->data + at;

		if (!draw(l, 20000))
			p = (uint8_t *)r + 128 + draw(l, 136);
		else if (draw(l, 2))
			p = io + draw(l, 1024);
		else if (!draw(l, 8))
			p = (uint8_t *)r + 136 + draw(l, RING_QUICK);
		*p = (uint8_t)draw(l, 256);
		for (uint32_t n = draw(l, 2000); n; n--)
			*(volatile uint32_t *)&n = n;
	}
}

static uint32_t share_and_map(struct life *l, uint32_t id, struct buffer *b)
{
	struct wire_share s = { .op = WIRE_SHARE,
		.buffer = id,
		.generation = id + 1,
		.bytes = buffer_bytes(b) };
	struct {
		struct wire_header h;
		struct wire_map m;
	} p = { { 3, 0, 0, ++l->seq }, { WIRE_MAP, id, id + 1, 0 } };
	struct wire_done done;
	struct err e = { 0 };
	int fd = buffer_fd(b);
	uint32_t seq;

	s.flags = id ? 0 : WIRE_SHARE_DMA;
	snprintf(s.name, sizeof(s.name), "%s", buffer_name(b));
	assert_ok(link_send(l->raw.link, &s, sizeof(s), &fd, 1, &e), &e);
	assert_int_equal(raw_publish(&l->raw, &p, sizeof(p)), 0);
	ring_bell(l);
	assert_int_equal(raw_take(&l->raw, &seq, &done, WAIT_MS), 0);
	if (done.status)
		fail_msg("map: %s", done.text);
	return done.arg[WIRE_MAP_ADDR];
}

static void load_graph(struct life *l)
{
	struct wire_done done;
	struct made m = { .len = 8 };
	uint32_t seq;
	struct wire_header h = { .seq = ++l->seq };

	put(&m, l->rig->load, sizeof(l->rig->load));
	h.length8 = (uint16_t)(m.len / 8);
	memcpy(m.words, &h, sizeof(h));
	assert_int_equal(raw_publish(&l->raw, m.words, m.len), 0);
	ring_bell(l);
	assert_int_equal(raw_take(&l->raw, &seq, &done, WAIT_MS), 0);
	if (done.status)
		fail_msg("load: %s", done.text);
}

static void bells_open(struct life *l)
{
	int one[2], two[2];

	if (l->hello.doorbell == DOORBELL_SOCKET) {
		assert_int_equal(socketpair(AF_UNIX,
					 SOCK_STREAM | SOCK_NONBLOCK, 0, one),
			0);
		assert_int_equal(socketpair(AF_UNIX,
					 SOCK_STREAM | SOCK_NONBLOCK, 0, two),
			0);
		l->own[0] = one[0];
		l->bells[0] = one[1];
		l->own[1] = two[0];
		l->bells[1] = two[1];
		return;
	}
	for (int i = 0; i < 2; i++) {
		l->bells[i] = eventfd(0, EFD_NONBLOCK);
		l->own[i] = dup(l->bells[i]);
	}
}

static void life_begin(struct life *l)
{
	struct err e = { 0 };
	int fd[2], null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	l->hello = usual_hello;
	l->hello.coherence = draw(l, COHERENCE_COUNT);
	l->hello.doorbell = draw(l, DOORBELL_COUNT);
	l->hello.evict_seed = draw(l, 3);
	bells_open(l);
	assert_ok(link_pair(fd, &e), &e);
	l->pid = fork();
	if (!l->pid) {
		fd_close(&fd[0]);
		dup2(null, STDERR_FILENO); /* discard thousands of messages */
		_exit(child(fd[1], NULL, true, NULL));
	}
	fd_close(&null);
	fd_close(&fd[1]);
	raw_open(&l->raw, fd[0], &l->hello,
		l->hello.doorbell == DOORBELL_POLL ? NULL : l->bells);
	for (int i = 0; i < 2; i++)
		fd_close(&l->bells[i]);
	l->address[0] = share_and_map(l, 0, l->rig->weights);
	l->address[1] = share_and_map(l, 1, l->rig->kv);
	l->address[2] = share_and_map(l, 2, l->rig->io);
	l->rig->weights_at = l->address[0];
	l->rig->kv_at = l->address[1];
	l->rig->io_at = l->address[2];
	load_graph(l);
}

static void send_batch(struct life *l, uint64_t *left)
{
	for (uint32_t n = 1 + draw(l, BATCH); n && *left; n--) {
		struct made m;
		int ret;

		make(l, &m);
		ret = raw_publish(&l->raw, m.words, m.len);
		if (ret == -EAGAIN || (ret && l->scribbled))
			/* the ring is full, or its index words were changed */
			break;
		assert_int_equal(ret, 0);
		l->expect[l->n_expect] = l->seq;
		l->op[l->n_expect++] = op_of(&m);
		l->tally->packets++;
		(*left)--;
	}
	ring_bell(l);
}

/* Publish a packet whose header states more bytes than were published, or set
 * an impossible index. Both must end the device. */
static void end_absurdly(struct life *l)
{
	if (draw(l, 2)) {
		struct wire_header h = { .length8 = 60000, .seq = 1 };

		raw_publish(&l->raw, &h, sizeof(h));
	} else {
		atomic_fetch_add(&l->raw.tx.shared->tail, 3);
	}
	ring_bell(l);
	assert_int_equal(outcome(l->pid), 1);
	l->tally->ends++;
}

/* Change the host's index of the completion ring, which the device reads when
 * it sends. */
static void scribble_head(struct life *l)
{
	for (int i = 0; i < 20; i++) {
		atomic_store(&l->raw.rx.shared->head, draw_word(l));
		if (raw_simple(&l->raw, ++l->seq, WIRE_NOP, 0))
			break;
		ring_bell(l);
	}
}

static void life_end(struct life *l)
{
	uint32_t bye = WIRE_BYE;
	int how;

	if (!l->scribbled && !draw(l, 3)) {
		end_absurdly(l);
	} else {
		if (!l->gone && draw(l, 2))
			link_send(
				l->raw.link, &bye, sizeof(bye), NULL, 0, NULL);
		fd_close(&l->raw.link);
		how = outcome(l->pid);
		/* A device that found coherence violations also ends with 1. */
		if (how != 0 && how != 1 && how != 3)
			fail_msg("the device ended with %d (life %llu)", how,
				(unsigned long long)l->stream);
		l->tally->ends += l->gone;
	}
	raw_close(&l->raw);
	fd_close(&l->own[0]);
	fd_close(&l->own[1]);
}

static void live(struct life *l, uint64_t *left)
{
	uint64_t until = *left > LIFE ? *left - LIFE : 0;
	pid_t other = 0;

	life_begin(l);
	if (l->scribbled) {
		other = fork();
		if (!other)
			scribble(l);
	}
	while (!l->gone && *left > until) {
		uint64_t before = *left;

		l->n_expect = 0;
		send_batch(l, left);
		if (*left ==
			before) /* index words changed: sending is impossible */
			break;
		collect(l);
	}
	if (other) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	is_alive(l);
	if (l->scribbled && !l->gone)
		scribble_head(l);
	life_end(l);
	l->tally->lives++;
}

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void survives_a_hostile_host(void **state)
{
	const char *text = getenv("TANDEM_HOSTILE_PACKETS");
	uint64_t left = text ? strtoull(text, NULL, 10) : 4000;
	struct rig_opts o = { .seed = harness_seed(), .norms = true };
	struct tally t = { 0 };
	struct rig r;
	unsigned before;

	/* a write to the doorbell of a device that has ended must not end the
	 * test */
	signal(SIGPIPE, SIG_IGN);
	before = open_descriptors();
	rig_open(&r, &o);
	/* The rig is used only for its buffers and its model. Close its device,
	 * because a process with threads must not be forked. */
	device_close(r.dev);
	r.dev = NULL;
	for (uint64_t n = 0; left; n++) {
		struct life l = { .seed = o.seed,
			.stream = n,
			.rig = &r,
			.scribbled = n % 2,
			.tally = &t };

		live(&l, &left);
	}
	rig_close(&r);
	print_message("%llu packets in %llu lives: %llu answered, %llu good, "
		      "%llu failed; %llu ended by themselves\n",
		(unsigned long long)t.packets, (unsigned long long)t.lives,
		(unsigned long long)t.answered, (unsigned long long)t.good,
		(unsigned long long)t.failed, (unsigned long long)t.ends);
	assert_int_equal(open_descriptors(), before);
	assert_true(t.good && t.failed);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(survives_a_hostile_host),
};

TEST_FILE(tests)
