#include "base/cpu_pressure.h"

#include "base/fd.h"

#include <math.h>
#include <stdio.h>

double cpu_pressure(const char *proc, unsigned cpus)
{
	char path[512], text[256];
	double x;

	snprintf(path, sizeof(path), "%s/pressure/cpu", proc);
	if (fd_read_text(path, text, sizeof(text)) &&
		sscanf(text, "some avg10=%lf", &x) == 1)
		return fmax(fmin(x / 100, 1), 0);
	snprintf(path, sizeof(path), "%s/loadavg", proc);
	return fd_read_text(path, text, sizeof(text)) &&
			sscanf(text, "%lf", &x) == 1 && x > cpus
		? 1 - cpus / x
		: 0;
}
