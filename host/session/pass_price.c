#include "host/session/pass_price.h"

#include "base/checked.h"
#include "host/model/residency.h"
#include "host/model/shapes.h"
#include "host/npu/phone.h"
#include "shm/coherence/tandem_coherence.h"
#include "tensor/layout.h"
#include "tensor/soc/price_layer.h"
#include "tensor/visibility.h"
#include "tensor/soc/soc.h"
#include "tensor/tile.h"

#include <assert.h>
#include <math.h>

#define SLOTS 16
/* number of simulated cycles (pass_price.h): enough that the last cycle takes
 * as long as the cycle before it */
#define CYCLES 4
/* minimum number of rows of a graph, except the one-row graph */
#define LEAST_ROWS 8
#define STRIP_MAX  (1 << 20)

/* ---- costs of layers ----------------------------------------------------- */

struct price_layer pass_price_layer(
	const struct shape *s, struct shape_type type, enum layout layout)
{
	struct price_layer l = { .n_embd = s->n_embd,
		.n_head = s->n_head,
		.n_kv_head = s->n_kv_head,
		.head_dim = s->head_dim,
		.n_ff = s->n_ff,
		.head_norm = s->qk_norm,
		.int8 = true,
		.exp = PRICE_EXP_F32 };
	uint64_t n, k;

	for (unsigned m = 0; m < PRICE_MATRICES; m++) {
		price_layer_matrix(&l, m, &n, &k);
		l.type[m] = layout_type(layout,
			m == PRICE_DOWN ? type.down : type.type, (uint32_t)k,
			STRIP_MAX);
	}
	return l;
}

static struct price run_of(
	const struct pass_ask *a, const struct price_layer *l, uint32_t rows)
{
	const struct visibility_piece piece = { rows, a->seen };
	struct price_batch batch = { rows > 1 ? LEAST_ROWS : 1, rows, &piece,
		1 };
	struct price p;

	while (batch.graph_rows < rows)
		batch.graph_rows *= 2;
	price_request(a->soc, &p);
	price_layer(a->soc, l, &batch, &p);
	return p;
}

/* ---- the timeline -------------------------------------------------------- */

struct timeline {
	const struct pass_ask *ask;
	struct phone_time time;
	struct residency residency;
	uint32_t layers, streamed;
	struct price read, lower, upper, logits, draft;
	uint64_t begin_ps; /* latency of a flash read */
	/* Completion times of the flash reads, in order, as a ring. `begun` is
	 * the number of reads that were started, `used` the number of reads
	 * whose layer has been run. */
	uint64_t ready[SLOTS];
	uint64_t begun, used;
};

static void read_next(struct timeline *t, uint64_t from)
{
	const struct soc *soc = t->ask->soc;

	t->ready[t->begun++ % SLOTS] = phone_flash(&t->time, from,
		(unsigned)soc->flash_queue, t->begin_ps, &t->read);
}

/* Time at which the next streamed layer is in memory. `turn` is the time at
 * which the NPU is ready to run the layer; before `turn`, flash reads at most
 * the fraction flash_ahead of the layer, as in there_ps of
 * host/memory/staging.c. */
static uint64_t arrival(struct timeline *t, uint64_t turn)
{
	double ahead = t->ask->soc->flash_ahead;
	uint64_t ready = t->ready[t->used++ % SLOTS];
	uint64_t takes = t->read.total_ps;
	uint64_t least = (uint64_t)((1 - ahead) * (double)takes + 0.5);
	uint64_t left = ready > turn ? ready - turn : 0;

	if (ahead == 1)
		return ready;
	left = left < takes ? left : takes;
	return turn + (left > least ? left : least);
}

static void lay_pass(struct timeline *t)
{
	struct phone_time *time = &t->time;
	uint64_t began = time->cpu_ps, before = 0;

	for (uint32_t l = 0; l < t->layers; l++) {
		bool streamed = residency_streams(&t->residency, l);

		if (streamed && before && t->ask->soc->flash_ahead < 1) {
			phone_wait(time, time->npu_ps);
			read_next(t, before);
			before = 0;
		}
		if (streamed)
			phone_wait(time,
				arrival(t, phone_later(time->npu_ps, began)));
		phone_npu(time, time->cpu_ps,
			l < t->layers / 2 ? &t->lower : &t->upper);
		if (before)
			read_next(t, before);
		before = streamed ? time->npu_ps : 0;
	}
	phone_wait(time, time->npu_ps);
	if (before)
		read_next(t, before);
}

/* ---- a cycle ------------------------------------------------------------- */

static void set_up(struct timeline *t, uint32_t rows, uint32_t upper)
{
	const struct pass_ask *a = t->ask;
	struct price_layer l =
		pass_price_layer(a->target, a->type, LAYOUT_TILES);
	/* starts with the bytes of the two norms; the matrices are added
	 * below */
	uint64_t bytes = 2ull * l.n_embd * sizeof(float), n, k;
	uint32_t resident;

	for (unsigned m = 0; m < PRICE_MATRICES; m++) {
		price_layer_matrix(&l, m, &n, &k);
		bytes += align_up(
			layout_bytes(l.type[m], (uint32_t)n, (uint32_t)k),
			COHERENCE_LINE);
	}
	t->layers = a->target->n_layer;
	resident = (uint32_t)(a->resident * t->layers + 1e-6);
	t->residency = residency_of(t->layers, resident, a->runs);
	t->streamed = t->layers - resident;
	price_flash(a->soc, bytes, &t->read);
	t->begin_ps = price_ps(a->soc->flash_read_s);
	t->lower = run_of(a, &l, rows);
	t->upper = run_of(a, &l, upper);
	price_cpu_matmul(a->soc, 1, a->target->n_vocab, a->target->n_embd,
		a->type.type, &t->logits);
	if (!a->draft)
		return;
	l = pass_price_layer(a->draft, a->type, LAYOUT_ROWS);
	price_cpu_model(a->soc, &l, a->draft->n_layer, a->draft->n_vocab,
		a->type.type, 1, &t->draft);
}

static struct price times(const struct price *p, double n)
{
	return (struct price){
		.cpu_ps = (uint64_t)((double)p->cpu_ps * n),
		.total_ps = (uint64_t)((double)p->total_ps * n),
		.energy_pj = (uint64_t)((double)p->energy_pj * n),
	};
}

static double seconds(uint64_t ps)
{
	return (double)ps / 1e12;
}

/* The cost of a cycle (a pass, its logits, and drafting the next tree) for
 * whole numbers of rows. */
static struct pass_terms cycle(
	const struct pass_ask *a, uint32_t rows, uint32_t upper)
{
	struct timeline t = { .ask = a };
	uint64_t from = 0, energy = 0, reads;
	struct price logits, draft;
	struct pass_terms c;
	uint32_t half;
	double rest;

	set_up(&t, rows, upper);
	logits = times(&t.logits, a->length);
	draft = times(&t.draft, a->drafted);
	for (unsigned i = 0; i < a->slots && t.streamed; i++)
		read_next(&t, 0);
	for (unsigned i = 0; i < CYCLES; i++) {
		from = t.time.cpu_ps;
		energy = t.time.price.energy_pj;
		phone_cpu(&t.time, TRACE_PHONE_DRAFT, &draft);
		lay_pass(&t);
		phone_cpu(&t.time, TRACE_PHONE_LOGITS, &logits);
	}
	reads = t.streamed * t.read.total_ps;
	if (reads && a->soc->flash_queue > 1 && a->soc->flash_ahead > 0)
		reads -= (t.streamed - 1) * t.begin_ps;
	half = t.layers / 2;
	c = (struct pass_terms){ .read = seconds(reads),
		.npu = seconds(half * t.lower.total_ps +
			(t.layers - half) * t.upper.total_ps),
		.draft = seconds(draft.total_ps),
		.logits = seconds(logits.total_ps),
		.total = seconds(t.time.cpu_ps - from) };
	rest = c.npu + c.logits + c.draft;
	c.hidden = c.read + rest - c.total;
	c.lost = c.total - fmax(c.read, rest);
	c.joules = seconds(t.time.price.energy_pj - energy) +
		a->soc->base_w * c.total;
	return c;
}

static double between(double a, double b, double at)
{
	return a + (b - a) * at;
}

struct pass_terms pass_price(const struct pass_ask *a)
{
	double upper = fmin(a->upper_rows, a->rows);
	double at = a->rows - floor(a->rows);
	struct pass_terms low, high;

	assert(a->slots >= 2 && a->slots <= SLOTS);
	low = cycle(a, (uint32_t)a->rows, (uint32_t)fmax(1, floor(upper)));
	if (at == 0 && upper == floor(upper))
		return low;
	/* Interpolate between a pass with `rows` and `upper` rounded down and a
	 * pass with `rows` and `upper` rounded up. The weight is the fractional
	 * part of `rows` or, if `rows` is a whole number, the fractional part
	 * of `upper`. */
	high = cycle(a, (uint32_t)ceil(a->rows), (uint32_t)ceil(upper));
	at = at > 0 ? at : upper - floor(upper);
	return (struct pass_terms){ between(low.read, high.read, at),
		between(low.npu, high.npu, at),
		between(low.draft, high.draft, at),
		between(low.logits, high.logits, at),
		between(low.hidden, high.hidden, at),
		between(low.lost, high.lost, at),
		between(low.total, high.total, at),
		between(low.joules, high.joules, at) };
}
