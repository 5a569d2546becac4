#include "base/cpu_pressure.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

double cpu_pressure(const char *proc, unsigned cpus)
{
	char path[512];
	double x = 0;
	bool is;
	FILE *f;

	snprintf(path, sizeof(path), "%s/pressure/cpu", proc);
	f = fopen(path, "re");
	is = f && fscanf(f, "some avg10=%lf", &x) == 1;
	if (f)
		fclose(f);
	if (is)
		return fmax(fmin(x / 100, 1), 0);
	snprintf(path, sizeof(path), "%s/loadavg", proc);
	f = fopen(path, "re");
	is = f && fscanf(f, "%lf", &x) == 1;
	if (f)
		fclose(f);
	return is && x > cpus ? 1 - cpus / x : 0;
}
