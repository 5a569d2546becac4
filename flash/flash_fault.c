#include "flash/stream_impl.h"

#include "base/fault_plan.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct flash_fault {
	struct fault_plan plan;
	/* number of reads of the stream that has made the most reads so far;
	 * each stream counts its own reads */
	_Atomic uint64_t reads;
};

int flash_fault_parse(struct flash_fault **out, const char *plan, struct err *e)
{
	struct flash_fault *f = calloc(1, sizeof(*f));
	struct fault_plan device;
	int ret;

	if (!f)
		return err_sys(e, ENOMEM, "fault plan '%s'", plan);
	ret = fault_plan_parse(&f->plan, plan, e);
	fault_plan_share(&f->plan, false, &device);
	if (ret != -ENOMEM && (ret || !f->plan.n || device.n))
		ret = err_set(e, EINVAL,
			"fault plan '%s': faults of flash are eio@N, short@N, flip@N, "
			"stall@N, shrink@N and slow=MS@N",
			plan);
	if (!ret)
		*out = f;
	else
		free(f);
	return ret;
}

bool flash_fault_unfired(const struct flash_fault *f, char *buf, size_t size)
{
	uint64_t reads = atomic_load(&f->reads);

	for (unsigned i = 0; i < f->plan.n; i++)
		if (f->plan.event[i].at > reads) {
			fault_event_print(&f->plan.event[i], buf, size);
			return true;
		}
	return false;
}

/* ---- injection of faults ---- */

static const struct fault_event *fault_on(
	const struct flash_fault *f, enum fault_verb verb, uint64_t number)
{
	for (unsigned i = 0; i < f->plan.n; i++)
		if (f->plan.event[i].verb == verb &&
			fault_event_hits(&f->plan.event[i], number))
			return &f->plan.event[i];
	return NULL;
}

uint64_t fault_number(struct fault_state *s, const struct block *b)
{
	uint64_t number = ++s->reads, most;

	if (!s->plan)
		return number;
	most = atomic_load(&s->plan->reads);
	while (number > most &&
		!atomic_compare_exchange_weak(&s->plan->reads, &most, number))
		;
	if (fault_on(s->plan, FAULT_SHRINK, number) && b->off < s->end)
		s->end = b->off;
	return number;
}

bool fault_apply(const struct fault_state *s, uint64_t number, struct block *b,
	size_t useful)
{
	const struct flash_fault *f = s->plan;
	const struct fault_event *slow;

	if (!f)
		return true;
	slow = fault_on(f, FAULT_SLOW, number);
	if (slow) {
		struct timespec t = { slow->ms / 1000,
			slow->ms % 1000 * 1000000l };

		nanosleep(&t, NULL);
	}
	if (fault_on(f, FAULT_STALL, number))
		return false;
	/* Change the result of the read to the result that it would have if the
	 * file ended at s->end. */
	if (b->off >= s->end)
		b->res = 0;
	else if (b->res > 0 && (uint64_t)b->res > s->end - b->off)
		b->res = (int64_t)(s->end - b->off);
	if (fault_on(f, FAULT_EIO, number))
		b->res = -EIO;
	else if (fault_on(f, FAULT_SHORT, number) && b->res > 0)
		b->res /= 2;
	if (fault_on(f, FAULT_FLIP, number) && b->res > 0) {
		size_t n = (uint64_t)b->res < useful ? (size_t)b->res : useful;

		b->dst[n / 2] ^= 0x10;
	}
	return true;
}
