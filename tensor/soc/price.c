#include "tensor/soc/price.h"

#include "base/checked.h"
#include "tensor/soc/hvx.h"
#include "tensor/soc/price_impl.h"
#include "tensor/soc/soc.h"
#include "tensor/tile.h"

#include <errno.h>
#include <string.h>

#define PICO       1e12
#define LONGEST_PS 1e18 /* about 11 days in ps: longer times are clamped */

/* ---- from counts to times ---- */

uint64_t price_ps(double seconds)
{
	double ps = seconds * PICO + 0.5;

	return ps < LONGEST_PS ? (uint64_t)ps : (uint64_t)LONGEST_PS;
}

uint64_t price_vector_ps(const struct soc *soc, uint64_t packets,
	uint64_t gathers, uint64_t parts)
{
	uint64_t units = (uint64_t)soc->vector_units;
	uint64_t rounds = ceil_div(parts, units);
	double waits =
		(double)gathers * soc->gather_packets / soc->gathers_in_flight;
	double each = ((double)packets + waits) / (double)parts;

	return price_ps(each * (double)rounds * soc->vector_cycles_per_packet /
		soc->clock_hz);
}

static uint64_t energy_pj(const struct soc *soc, const struct price *p)
{
	double pj = (double)p->matrix_ps * soc->matrix_w +
		(double)p->vector_ps * soc->vector_w;

	pj = pj + ((double)p->dma_ps + (double)p->read_ps) * soc->memory_w;
	pj = pj + (double)p->cpu_ps * soc->cpu_w;
	pj = pj + (double)p->flash_ps * soc->flash_w;
	return pj < LONGEST_PS ? (uint64_t)(pj + 0.5) : (uint64_t)LONGEST_PS;
}

void price_add_vector(const struct soc *soc, double seconds, struct price *p)
{
	struct price more = { .vector_ps = price_ps(seconds) };

	more.total_ps = more.vector_ps;
	more.energy_pj = energy_pj(soc, &more);
	price_add(p, &more);
}

void price_finish(
	const struct soc *soc, struct price *p, const struct price *first)
{
	const uint64_t all[] = { p->matrix_ps, p->vector_ps, p->dma_ps,
		p->read_ps };
	const uint64_t one[] = { first->matrix_ps, first->vector_ps,
		first->dma_ps, first->read_ps };
	uint64_t fill = 0, rest = 0;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		fill += one[i];
		rest = larger(rest, all[i] - one[i]);
	}
	p->counts.launches = 1;
	p->total_ps = fill + rest + price_ps(soc->operator_s);
	p->energy_pj = energy_pj(soc, p);
}

void price_join(const struct soc *soc, struct price *p)
{
	p->counts.launches = 0;
	p->total_ps -= price_ps(soc->operator_s);
}

static void add(uint64_t *sum, uint64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = UINT64_MAX;
}

void price_add(struct price *sum, const struct price *p)
{
#define ADD_COUNT(type, name) add(&sum->counts.name, p->counts.name);
#define ADD_TIME(type, name)  add(&sum->name, p->name);
	PRICE_COUNTS(ADD_COUNT)
	PRICE_TIMES(ADD_TIME)
	add(&sum->total_ps, p->total_ps);
	add(&sum->energy_pj, p->energy_pj);
}

void price_spill(const struct soc *soc, uint64_t bytes, struct price *p)
{
	if ((double)bytes <= soc->l2_bytes)
		return;
	p->counts.read_bytes += bytes;
	p->read_ps =
		price_bytes_ps(p->counts.read_bytes, soc->read_bytes_per_s);
}

const struct hvx price_to_tile = { .load = 2, .mpy = 1, .store = 1 };
const struct hvx price_from_tile = {
	.load = 1, .wide = 1, .convert = 2, .store = 2
};

/* ---- operators on rows ---- */

static const struct {
	unsigned values; /* values that one loop body processes */
	/* number of packets (VLIW, hvx.h) of each row that depend on each other
	 * and are not part of the loop body; if it is not 0, one vector unit
	 * processes a whole row */
	unsigned across;
	/* how many arrays of n values the operator reads or writes for each row
	 */
	unsigned operands;
	struct hvx body;
} rows_ops[PRICE_ROWS_OPS] = {
	/* a sum of squares; then each value times 1 / (root mean square), times
	 * its weight */
	[PRICE_NORM] = { 32, 40, 3,
		{ .load = 3,
			.shift = 1,
			.wide = 3,
			.convert = 1,
			.store = 1 } },
	[PRICE_ROPE] = { 64, 0, 2,
		{ .load = 4,
			.shift = 2,
			.wide = 4,
			.convert = 2,
			.store = 2 } },
	/* an exponential, a reciprocal by three Newton steps, two products */
	[PRICE_SWIGLU] = { 64, 0, 3,
		{ .load = 4,
			.alu = 8,
			.shift = 36,
			.wide = 28,
			.convert = 10,
			.store = 2,
			.chain = 64,
			.chain_converts = 5 } },
	[PRICE_ADD] = { 32, 0, 3,
		{ .load = 2, .shift = 1, .convert = 1, .store = 1 } },
	/* for each group of 32 values: the maximum across the lanes of a
	 * vector; the reciprocal of the maximum; a product */
	[PRICE_QUANTIZE] = { 128, 0, 2,
		{ .load = 4,
			.alu = 28,
			.shift = 16,
			.permute = 20,
			.pair = 4,
			.mpy = 4,
			.wide = 28,
			.convert = 4,
			.store = 1,
			.chain = 42,
			.chain_converts = 2 } },
	[PRICE_KV_WRITE] = { 64, 0, 2, { .load = 2, .mpy = 1, .store = 1 } },
};

int price_rows(const struct soc *soc, enum price_rows_op op, uint64_t rows,
	uint64_t n, struct price *out)
{
	uint64_t packets;

	memset(out, 0, sizeof(*out));
	if (op >= PRICE_ROWS_OPS || !price_fits(rows) || !price_fits(n))
		return -EINVAL;
	packets = rows *
		(rows_ops[op].across +
			ceil_div(n, rows_ops[op].values) *
				hvx_packets(soc, &rows_ops[op].body));
	out->counts.vector_packets = packets;
	out->vector_ps = rows_ops[op].across
		? price_vector_ps(soc, packets, 0, rows)
		: price_vector_even_ps(soc, packets, 0);
	price_spill(soc, rows_ops[op].operands * rows * n * sizeof(float), out);
	price_finish(soc, out, &(struct price){ 0 });
	return 0;
}

void price_maintenance(const struct soc *soc, uint64_t bytes, struct price *out)
{
	memset(out, 0, sizeof(*out));
	out->counts.maintenance_bytes = bytes;
	out->read_ps = price_bytes_ps(bytes, soc->maintenance_bytes_per_s);
	out->total_ps = out->read_ps;
	out->energy_pj = energy_pj(soc, out);
}

void price_dma(const struct soc *soc, uint64_t bytes, struct price *out)
{
	memset(out, 0, sizeof(*out));
	out->counts.dma_bytes = bytes;
	out->counts.dma_descriptors = 1;
	out->dma_ps = price_dma_ps(soc, bytes, 1);
	out->total_ps = out->dma_ps;
	out->energy_pj = energy_pj(soc, out);
}

/* ---- requests, mappings, CPU, flash ---- */

void price_request(const struct soc *soc, struct price *out)
{
	memset(out, 0, sizeof(*out));
	out->total_ps = price_ps(soc->request_s);
}

void price_map(const struct soc *soc, uint64_t bytes, struct price *out)
{
	memset(out, 0, sizeof(*out));
	out->total_ps =
		price_ps(soc->map_s + (double)bytes / soc->map_bytes_per_s);
}

void price_graph_load(const struct soc *soc, uint64_t bytes, struct price *out)
{
	memset(out, 0, sizeof(*out));
	out->total_ps = price_ps(soc->graph_load_s +
		(double)bytes / soc->graph_load_bytes_per_s);
}

void price_cpu(const struct soc *soc, uint64_t bytes, uint64_t flops,
	struct price *out)
{
	memset(out, 0, sizeof(*out));
	out->counts.cpu_bytes = bytes;
	out->counts.cpu_flops = flops;
	out->cpu_ps = larger(price_bytes_ps(bytes, soc->cpu_bytes_per_s),
		price_bytes_ps(flops, soc->cpu_flops_per_s));
	out->total_ps = out->cpu_ps;
	out->energy_pj = energy_pj(soc, out);
}

void price_cpu_busy(const struct soc *soc, double seconds, struct price *out)
{
	memset(out, 0, sizeof(*out));
	out->cpu_ps = price_ps(seconds);
	out->total_ps = out->cpu_ps;
	out->energy_pj = energy_pj(soc, out);
}

int price_cpu_matmul(const struct soc *soc, uint64_t rows, uint64_t n,
	uint64_t k, enum dtype type, struct price *out)
{
	uint64_t bytes = 0;

	memset(out, 0, sizeof(*out));
	if (price_fits(rows) && price_fits(n) && price_fits(k))
		bytes = tile_info(type) ? tile_bytes(type, n, k)
					: n * dtype_row_bytes(type, k);
	if (!bytes)
		return -EINVAL;
	price_cpu(soc, bytes + rows * (n + k) * sizeof(float), 2 * rows * n * k,
		out);
	return 0;
}

void price_flash(const struct soc *soc, uint64_t bytes, struct price *out)
{
	memset(out, 0, sizeof(*out));
	out->counts.flash_bytes = bytes;
	out->flash_ps = price_ps(
		soc->flash_read_s + (double)bytes / soc->flash_bytes_per_s);
	out->total_ps = out->flash_ps;
	out->energy_pj = energy_pj(soc, out);
}
