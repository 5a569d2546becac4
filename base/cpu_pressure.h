/*
 * How busy the machine's CPUs are: the share of recent time during which at
 * least one task waited for a CPU.
 */
#ifndef BASE_CPU_PRESSURE_H
#define BASE_CPU_PRESSURE_H

/*
 * Returns that share of the last ten seconds, from 0 to 1. It is read from the
 * file pressure/cpu in the folder `proc`, which is "/proc" except in tests. If
 * the kernel does not measure pressure, the share is estimated from the file
 * loadavg and the number of CPUs, `cpus`: 1 - cpus / load, or 0 if the load is
 * at most `cpus`. Returns 0 if neither file can be read.
 */
double cpu_pressure(const char *proc, unsigned cpus);

#endif
