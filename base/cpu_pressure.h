/*
 * How busy the machine's CPUs are: the share of the last seconds in which some
 * task of the machine waited for a CPU.
 */
#ifndef BASE_CPU_PRESSURE_H
#define BASE_CPU_PRESSURE_H

/*
 * Returns the share, 0 to 1, over the last ten seconds, from pressure/cpu in
 * the folder `proc`, which is "/proc" except in tests. If the kernel does not
 * measure pressure, the share of the tasks in loadavg that exceed `cpus` is
 * used. Returns 0 if neither file can be read.
 */
double cpu_pressure(const char *proc, unsigned cpus);

#endif
