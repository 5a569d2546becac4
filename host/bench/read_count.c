#include "host/bench/read_count.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNTS "/proc/self/io"

int64_t read_count(char *why, size_t size)
{
	FILE *f = fopen(COUNTS, "re");
	int64_t bytes = -1;
	char line[80];

	if (!f) {
		snprintf(why, size, COUNTS ": %s", strerror(errno));
		return -1;
	}
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "read_bytes: %" SCNd64, &bytes) == 1)
			break;
	fclose(f);
	if (bytes < 0)
		snprintf(why, size, COUNTS " has no read_bytes");
	return bytes;
}
