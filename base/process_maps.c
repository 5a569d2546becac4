#include "base/process_maps.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

uint64_t process_huge_bytes(pid_t pid)
{
	char path[64], line[PATH_MAX + 128];
	uint64_t from, to, kib, all = 0;
	bool memfd = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	f = pid ? fopen(path, "re") : NULL;
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		/* The first line of a mapping: "from-to rw-s offset dev inode
		 * /memfd:NAME (deleted)". */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2)
			memfd = strstr(line, "/memfd:") != NULL;
		/* A line such as "ShmemPmdMapped: 2048 kB" belongs to the
		 * mapping above it. For reserved huge pages (hugetlbfs) the
		 * kernel uses Shared_Hugetlb if another process maps them too,
		 * else Private_Hugetlb. */
		else if (memfd &&
			(sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1 ||
				sscanf(line, "Shared_Hugetlb: %" SCNu64,
					&kib) == 1 ||
				sscanf(line, "Private_Hugetlb: %" SCNu64,
					&kib) == 1))
			all += kib;
	}
	fclose(f);
	return all << 10;
}
