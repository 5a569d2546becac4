/* One request after another: tandem_generate. */
#include "base/err.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"

#include <errno.h>

/* Who is asked to stop has done so. */
int tandem_settle(struct tandem *t, int status)
{
	if (status == TANDEM_CANCELED)
		__atomic_store_n(&t->canceled, 0, __ATOMIC_RELAXED);
	if (status == TANDEM_LOST)
		t->dead = status;
	return status;
}

static int refuse_others(struct tandem *t)
{
	return tandem_status_of(err_set(&t->err, EINVAL,
		"submitted requests are still running; finish them with "
		"tandem_advance, or add this one with tandem_submit"));
}

int tandem_generate(struct tandem *t, const struct tandem_request *request,
	struct tandem_result *result)
{
	int ret = t->dead;

	text_close(t->last);
	t->last = NULL;
	if (!ret && texts_under_way(t))
		ret = refuse_others(t);
	if (!ret)
		ret = text_open(&t->last, t, request, false);
	if (!ret && (ret = text_run(t->last)))
		t->err = t->last->err;
	ret = tandem_settle(t, ret);
	if (result)
		text_result(t->last, result);
	return ret;
}
