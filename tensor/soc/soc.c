#include "tensor/soc/soc.h"

#include "base/err.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define SOC_ROW(name, lower, upper) \
	{ #name, offsetof(struct soc, name), lower, upper },

const struct soc_number soc_numbers[SOC_COUNT] = { SOC_NUMBERS(SOC_ROW) };

double soc_get(const struct soc *soc, size_t i)
{
	double value;

	memcpy(&value, (const char *)soc + soc_numbers[i].offset,
		sizeof(value));
	return value;
}

static int check_whole(const char *name, double value, struct err *e)
{
	if (value != (double)(long)value)
		return err_set(e, ERANGE, "%s is %.17g, not a whole number",
			name, value);
	return 0;
}

int soc_check(const struct soc *soc, struct err *e)
{
	int ret;

	for (size_t i = 0; i < SOC_COUNT; i++) {
		const struct soc_number *n = &soc_numbers[i];
		double v = soc_get(soc, i);

		if (!isfinite(v) || v < n->lower || v > n->upper)
			return err_set(e, ERANGE,
				"%s is %.17g, not between %g and %g", n->name,
				v, n->lower, n->upper);
	}
	ret = check_whole("vector_units", soc->vector_units, e);
	if (!ret)
		ret = check_whole("flash_queue", soc->flash_queue, e);
	if (!ret)
		ret = check_whole("vector_qfloat", soc->vector_qfloat, e);
	if (!ret)
		ret = check_whole(
			"vector_permute_shifts", soc->vector_permute_shifts, e);
	return ret;
}
