#include "host/bench/bench_lists.h"

#include "base/err.h"
#include "host/api/options.h"
#include "host/shipped/soc_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int bench_counts(const char *name, const char *list, const char *try,
	uint32_t count[BENCH_COUNTS], unsigned *n, uint32_t *most,
	struct err *e)
{
	*n = *most = 0;
	for (const char *at = list;; at++) {
		char *end;
		unsigned long number = strtoul(at, &end, 10);

		if (*at < '0' || *at > '9' || *n == BENCH_COUNTS || !number ||
			number > SAMPLES_PARALLEL || (*end && *end != ','))
			return err_set(e, EINVAL,
				"--%s '%s' is not a list of at most %d numbers "
				"from 1 to %d; try %s",
				name, list, BENCH_COUNTS, SAMPLES_PARALLEL,
				try);
		count[(*n)++] = (uint32_t)number;
		*most = number > *most ? (uint32_t)number : *most;
		if (!*end)
			return 0;
		at = end;
	}
}

int bench_phone(
	const char *clock, const char **name, struct soc *soc, struct err *e)
{
	if (!clock)
		clock = "soc:sd8gen3";
	if (strncmp(clock, "soc:", 4) || !clock[4])
		return err_set(e, EINVAL,
			"--clock '%s' is not soc:NAME; try soc:sd8gen3 (times "
			"by the wall clock are always reported)",
			clock);
	*name = clock + 4;
	return soc_file_load(soc, *name, e);
}
