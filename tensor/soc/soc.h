/*
 * The numbers of a phone from which times are computed: rates and costs of the
 * NPU's engines, of the CPU and of the flash. A profile (a file in tensor/soc/)
 * gives each number with its source. docs/soc-clock.md explains how the numbers
 * are used.
 *
 * All numbers are doubles, in the order of SOC_NUMBERS. The host sends a
 * profile as such an array to the device, which opens no files. The unit is in
 * the name: _hz, _s, _bytes, _w, _per_s. Any thread may call the functions.
 */
#ifndef TENSOR_SOC_SOC_H
#define TENSOR_SOC_SOC_H

#include <stddef.h>
#include <string.h>

struct err;

/* The numbers of a profile, as X(name, lower limit, upper limit). The limits
 * are wide enough for any NPU, and keep every computed time finite. */
#define SOC_NUMBERS(X)                                                         \
	/* clock of the NPU's engines */                                       \
	X(clock_hz, 1e7, 1e11)                                                 \
	/* cycles of the product of two 32x32 tiles in fp16 */                 \
	X(matrix_cycles_per_tile, 0.1, 1e4)                                    \
	/* number of vector units; cycles that a unit needs for a packet       \
	 * (instructions that are issued together) */                          \
	X(vector_units, 1, 64)                                                 \
	X(vector_cycles_per_packet, 0.1, 100)                                  \
	/* 1: vector results are in qfloat, HVX's own float format, and need   \
	 * a conversion; 0: they are IEEE floats */                            \
	X(vector_qfloat, 0, 1)                                                 \
	/* 1: the permute unit can shift too */                                \
	X(vector_permute_shifts, 0, 1)                                         \
	/* latency of a gather or scatter, in packets of instructions;         \
	 * largest number of gathers and scatters in flight at once */         \
	X(gather_packets, 1, 1e4)                                              \
	X(gathers_in_flight, 1, 64)                                            \
	X(dma_bytes_per_s, 1e6, 1e14)                                          \
	X(dma_descriptor_s, 0, 1)                                              \
	/* rate of vector loads from DDR through L2 */                         \
	X(read_bytes_per_s, 1e6, 1e14)                                         \
	X(tcm_bytes, 1e5, 1e10)                                                \
	X(l2_bytes, 0, 1e10)                                                   \
	/* 2: cleaning or invalidating a range does not reach the second level \
	 * of the cache (contract 2 of docs/coherence.md) */                   \
	X(cache_levels, 1, 2)                                                  \
	/* rate of cleaning or invalidating caches */                          \
	X(maintenance_bytes_per_s, 1e6, 1e14)                                  \
	/* time to start an operator on all vector units */                    \
	X(operator_s, 0, 1)                                                    \
	/* overhead of a product with several rows: time per weight */         \
	X(batch_weight_s, 0, 1e-6)                                             \
	/* overhead of a product with several rows: time per weight and row */ \
	X(row_weight_s, 0, 1e-6)                                               \
	/* time of the round trip of a request from the CPU */                 \
	X(request_s, 0, 1)                                                     \
	X(map_s, 0, 10)                                                        \
	X(map_bytes_per_s, 1e6, 1e14)                                          \
	X(graph_load_s, 0, 100)                                                \
	X(graph_load_bytes_per_s, 1e6, 1e14)                                   \
	X(cpu_bytes_per_s, 1e6, 1e14)                                          \
	X(cpu_flops_per_s, 1e6, 1e16)                                          \
	/* one core, for the host's own work: its clock, float32 operations    \
	 * per cycle, and cycles of a step that waits for memory */            \
	X(core_hz, 1e7, 1e11)                                                  \
	X(core_lanes, 1, 1e4)                                                  \
	X(core_step_cycles, 0.1, 1e4)                                          \
	X(flash_bytes_per_s, 1e5, 1e14)                                        \
	/* time from a read's command to its first byte; the most reads that   \
	 * the flash executes at once */                                       \
	X(flash_read_s, 0, 10)                                                 \
	X(flash_queue, 1, 64)                                                  \
	/* largest share of a layer's bytes that may be read from flash before \
	 * all earlier layers have been computed */                            \
	X(flash_ahead, 0, 1)                                                   \
	/* constant power of the phone, then power of each busy engine */      \
	X(base_w, 0, 1e3)                                                      \
	X(matrix_w, 0, 1e3)                                                    \
	X(vector_w, 0, 1e3)                                                    \
	X(memory_w, 0, 1e3)                                                    \
	X(cpu_w, 0, 1e3)                                                       \
	X(flash_w, 0, 1e3)

struct soc {
#define SOC_FIELD(name, lower, upper) double name;
	SOC_NUMBERS(SOC_FIELD)
#undef SOC_FIELD
};

#define SOC_COUNT (sizeof(struct soc) / sizeof(double))

struct soc_number {
	const char *name;
	size_t offset; /* offset of the number in struct soc */
	double lower, upper;
};

extern const struct soc_number soc_numbers[SOC_COUNT];

/*
 * Check all numbers. Each number must be finite and within its limits;
 * vector_units, flash_queue, vector_qfloat and vector_permute_shifts must be
 * whole numbers. Returns 0, or -ERANGE with a message that names the wrong
 * number.
 */
int soc_check(const struct soc *, struct err *);

/* soc_get returns number i of the profile, i < SOC_COUNT; soc_set sets it. */
double soc_get(const struct soc *, size_t i);
static inline void soc_set(struct soc *soc, size_t i, double value)
{
	memcpy((char *)soc + soc_numbers[i].offset, &value, sizeof(value));
}

#endif
