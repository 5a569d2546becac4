/* Several texts: tandem_submit, tandem_advance and what they are told by. */
#include "base/err.h"
#include "host/api/tandem_impl.h"
#include "host/api/text_impl.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

unsigned texts_under_way(const struct tandem *t)
{
	unsigned n = 0;

	for (const struct tandem_text *x = t->first_text; x; x = x->next)
		n += x->state == TEXT_UNDER_WAY;
	return n;
}

static struct tandem_text **place_of(
	struct tandem *t, const struct tandem_text *x)
{
	struct tandem_text **at = &t->first_text;

	while (*at != x)
		at = &(*at)->next;
	return at;
}

int tandem_submit(struct tandem *t, const struct tandem_request *request,
	struct tandem_text **out)
{
	int ret = t->dead;

	*out = NULL;
	if (!ret)
		ret = tandem_settle(t, text_open(out, t, request, true));
	if (!ret)
		*place_of(t, NULL) = *out;
	return ret;
}

/* ---- a pass -------------------------------------------------------------- */

static struct tandem_text *first_under_way(const struct tandem *t)
{
	struct tandem_text *x = t->first_text;

	while (x && x->state != TEXT_UNDER_WAY)
		x = x->next;
	return x;
}

static void end_canceled(struct tandem *t)
{
	for (struct tandem_text *x = t->first_text; x; x = x->next)
		if (x->canceled && x->state == TEXT_UNDER_WAY)
			text_end(x, 0);
}

static void end_all(struct tandem *t, int ret)
{
	for (struct tandem_text *x = t->first_text; x; x = x->next) {
		if (x->state != TEXT_UNDER_WAY)
			continue;
		x->err = t->err;
		text_end(x, ret);
	}
}

/* What it ends with concerns others only where the device was lost, or all
 * was to stop. */
static int write_one(struct tandem *t, struct tandem_text *x)
{
	int ret = text_run(x);

	if (ret != TANDEM_LOST && (ret != TANDEM_CANCELED || x->canceled))
		return 0;
	t->err = x->err;
	if (ret == TANDEM_LOST)
		end_all(t, -ERR_DEVICE_LOST);
	return ret;
}

int tandem_advance(struct tandem *t, unsigned *texts)
{
	struct tandem_text *x;
	int ret = t->dead;

	assert(!t->advancing);
	t->advancing = true;
	end_canceled(t);
	x = first_under_way(t);
	if (!ret && x)
		ret = tandem_settle(t, write_one(t, x));
	t->advancing = false;
	if (texts)
		*texts = texts_under_way(t);
	return ret;
}

/* ---- one of them --------------------------------------------------------- */

int tandem_text_state(const struct tandem_text *x, struct tandem_result *result)
{
	if (result)
		text_result(x, result);
	return x->state;
}

const char *tandem_text_error(const struct tandem_text *x)
{
	return x->err.text;
}

void tandem_text_cancel(struct tandem_text *x)
{
	x->canceled = true;
}

void tandem_text_close(struct tandem_text *x)
{
	if (!x)
		return;
	*place_of(x->tandem, x) = x->next;
	text_close(x);
}
