#include "host/bench/print_json.h"

#include "base/err.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

json_t *number_json(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

int print_json(json_t *o, size_t digits, struct err *e)
{
	int ret;

	if (!o)
		return err_set(e, ENOMEM, "no memory for the JSON object");
	errno = 0;
	ret = json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(digits));
	if (putchar('\n') == EOF || ret)
		ret = err_sys(
			e, errno ? errno : EIO, "cannot write the JSON object");
	json_decref(o);
	return ret;
}
