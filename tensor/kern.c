#include "tensor/kern.h"

#include "base/checked.h"
#include "base/err.h"
#include "tensor/f16.h"
#include "tensor/kern_impl.h"
#include "tensor/kern_tile.h"
#include "tensor/tile.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

bool kern_has_f16c(void)
{
#ifdef __x86_64__
	/* Some versions of clang do not know "f16c" in
	 * __builtin_cpu_supports. */
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
#else
	return false;
#endif
}

/* Implementations from the slowest to the fastest. */
static const struct kern *const built_in[] = {
	&kern_ref,
	&kern_vec_base,
#ifdef __x86_64__
	&kern_vec_avx2,
	&kern_vec_avx512,
	&kern_vec_vnni,
	&kern_vec_amx,
#endif
#ifdef __aarch64__
	&kern_vec_dotprod,
	&kern_vec_i8mm,
#endif
};

/*
 * Whether this CPU can run an implementation. The CPU features that are tested
 * here must be those of isa_flags_* in the Makefile.
 *
 * Linux lets a process use the tile registers of AMX only after a system call
 * (arch_prctl), which this function makes, so the program must call this
 * function before it enters its sandbox.
 */
static bool runs(const struct kern *k)
{
	bool has = true;

	if (k == &kern_ref || k == &kern_vec_base)
		return true;
#ifdef __x86_64__
	enum { REQ_XCOMP_PERM = 0x1023, XTILE_DATA = 18 };
	const unsigned tile = 1u << 24, int8 = 1u << 25, gfni = 1u << 8;
	unsigned a, b, c, d;

	has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		kern_has_f16c();
	if (k == &kern_vec_avx2)
		return has;
	has = has && __builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512vl") &&
		__builtin_cpu_supports("avx512dq");
	if (k == &kern_vec_avx512)
		return has;
	has = has && __builtin_cpu_supports("avx512vnni");
	if (k == &kern_vec_vnni)
		return has;
	has = has && __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & tile &&
		d & int8 && c & gfni &&
		!syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILE_DATA);
#endif
#ifdef __aarch64__
	has = getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
	if (k == &kern_vec_dotprod)
		return has;
	has = has && getauxval(AT_HWCAP2) & HWCAP2_I8MM;
#endif
	return has;
}

const char *const *kern_names(void)
{
	static const char *names[ARRAY_LEN(built_in) + 1];

	for (size_t i = 0; i < ARRAY_LEN(built_in); i++)
		names[i] = built_in[i]->name;
	return names;
}

static const struct kern *best(void)
{
	size_t i = ARRAY_LEN(built_in) - 1;

	while (!runs(built_in[i]))
		i--;
	return built_in[i];
}

const struct kern *kern_find(const char *name)
{
	if (!name)
		return best();
	for (size_t i = 0; i < ARRAY_LEN(built_in); i++)
		if (!strcmp(name, built_in[i]->name))
			return runs(built_in[i]) ? built_in[i] : NULL;
	return NULL;
}

int kern_select(const struct kern **out, struct err *e)
{
	const char *name = getenv("TANDEM_CPU");
	const struct kern *k = kern_find(name && *name ? name : NULL);
	const size_t n = ARRAY_LEN(built_in);
	bool is_built_in = false;
	/* the list of all names for the error message, such as "ref, base or
	 * avx2" */
	char all[64];
	size_t at = 0;

	*out = k;
	if (k)
		return 0;
	for (size_t i = 0; i < n; i++) {
		is_built_in |= !strcmp(name, built_in[i]->name);
		at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s",
			!i                  ? ""
				: i + 1 < n ? ", "
					    : " or ",
			built_in[i]->name);
	}
	if (is_built_in)
		return err_set(e, ENOTSUP,
			"TANDEM_CPU=%s: this CPU lacks the instructions of "
			"these kernels; unset TANDEM_CPU to use '%s'",
			name, best()->name);
	return err_set(e, EINVAL,
		"TANDEM_CPU=%s names no known set of kernels; try %s, or "
		"unset it",
		name, all);
}

void kern_angles(float *cosine, float *sine, uint32_t position,
	const float *freq, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		double angle = (double)position * (double)freq[i];

		cosine[i] = (float)cos(angle);
		sine[i] = (float)sin(angle);
	}
}

void kern_exp2_table(uint16_t table[KERN_EXP2_ENTRIES])
{
	const unsigned infinity = 0x7c00;

	for (unsigned i = 0; i < KERN_EXP2_ENTRIES; i++) {
		const double x = -(double)f16_to_f32((uint16_t)i);

		table[i] = i > infinity ? 0 : f32_to_f16((float)exp2(x));
	}
}

size_t kern_matmul_scratch(unsigned k)
{
	/* the implementation `ref` needs room for one decoded row of k values;
	 * the vector kernels need a workspace of fixed size */
	return k > KERN_VEC_SCRATCH ? k : KERN_VEC_SCRATCH;
}

size_t kern_tile_scratch(unsigned k)
{
	return TILE_SCRATCH;
}

size_t kern_q8_bytes(unsigned k)
{
	const size_t scales = (size_t)k / Q8_GROUP + (k % Q8_GROUP != 0);

	return (q8_scale_at(k) + scales * sizeof(float) + 63) & ~(size_t)63;
}

size_t kern_attend_scratch(unsigned heads, unsigned head_dim)
{
	const size_t lanes = KERN_LANES;
	const size_t wide = (head_dim + lanes - 1) / lanes * lanes;
	const size_t all = (size_t)heads * KERN_ATTEND_ROWS;

	/* The sizes of the arrays of struct pass (kern_attend.h): q and o of
	 * all heads; `rows` and `transposed`, each for one block; the scores;
	 * four arrays with one float for each head, padded to whole vectors;
	 * and 15 floats for the alignment to a cache line. */
	return wide * 2 * (all + KERN_ATTEND_BLOCK) +
		all * (KERN_ATTEND_BLOCK + 4) + 4 * lanes + 15;
}

bool kern_takes_q8(enum dtype t)
{
	return t == DTYPE_TILE_Q4_0 || t == DTYPE_TILE_Q8_0;
}

void kern_multiply(const struct kern *kern, float *y, size_t ldy,
	const struct kern_rows *r, enum dtype wt, const void *w, unsigned n,
	unsigned k, void *scratch)
{
	if (r->q8 && kern_takes_q8(wt))
		kern->matmul_q8(y, ldy, r->q8, r->n, wt, w, n, k, scratch);
	else if (tile_info(wt))
		kern->matmul_tile(y, ldy, r->x, r->ldx, r->n, wt, w, n, k,
			r->w_f16, scratch);
	else
		kern->matmul(y, ldy, r->x, r->ldx, r->n, wt, w, n, k, r->w_f16,
			scratch);
}

struct kern_parts kern_parts(
	size_t units, size_t unit_bytes, size_t most, unsigned threads)
{
	/* in bytes: large enough for the CPU's prefetchers; small enough that
	 * the dispatch of a part takes far less time than its product */
	const size_t largest = 1 << 20, smallest = 64 << 10;
	const size_t least = smallest / unit_bytes ? smallest / unit_bytes : 1;
	const size_t share = (units + threads - 1) / threads;
	struct kern_parts p = { (uint32_t)units, threads, (uint32_t)share };
	size_t left;

	if (most > largest / unit_bytes)
		most = largest / unit_bytes;
	most = most ? most : 1;
	/* parts of `most` units until at most 2 * most units are left */
	p.most = (uint32_t)most;
	p.whole = (uint32_t)(share > 2 * most ? (share - most - 1) / most : 0);
	left = share - p.whole * most;
	for (; left > most || left / 2 >= least; left -= left / 2)
		p.halvings++;
	return p;
}

uint32_t kern_parts_count(const struct kern_parts *p)
{
	return (p->whole + p->halvings + 1) * p->threads;
}

/* The number of units of a share that are left after its first `parts`
 * parts. */
static uint32_t units_left(const struct kern_parts *p, uint32_t parts)
{
	uint32_t left = p->share;

	if (parts <= p->whole)
		return left - parts * p->most;
	left -= p->whole * p->most;
	parts -= p->whole;
	if (parts > p->halvings)
		return 0;
	for (; parts; parts--)
		left -= left / 2;
	return left;
}

struct kern_part kern_part(const struct kern_parts *p, uint32_t i)
{
	const uint64_t end = (uint64_t)(i % p->threads + 1) * p->share;
	uint64_t from = end - units_left(p, i / p->threads);
	uint64_t to = end - units_left(p, i / p->threads + 1);

	from = from < p->units ? from : p->units;
	to = to < p->units ? to : p->units;
	return (struct kern_part){ (uint32_t)from, (uint32_t)(to - from) };
}

size_t kern_multiply_scratch(unsigned k)
{
	size_t rows = kern_matmul_scratch(k) * sizeof(float);
	size_t tiles = kern_tile_scratch(k);

	return rows > tiles ? rows : tiles;
}
