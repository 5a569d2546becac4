#include "flash/flash_fault.h"

#include "base/checked.h"
#include "base/err.h"
#include "flash/stream.h"
#include "flash/stream_read.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_MAX 16

enum fault_kind {
	FAULT_EIO,
	FAULT_SHORT,
	FAULT_FLIP,
	FAULT_STALL,
	FAULT_SHRINK
};

static const char *const kind_names[] = {
	[FAULT_EIO] = "eio",
	[FAULT_SHORT] = "short",
	[FAULT_FLIP] = "flip",
	[FAULT_STALL] = "stall",
	[FAULT_SHRINK] = "shrink",
};

struct flash_fault {
	size_t n;
	struct {
		enum fault_kind kind;
		uint64_t at;
		bool on; /* and all reads after it */
	} fault[PLAN_MAX];
};

/* ---- the text ---- */

/* One fault from *text, which moves behind it. */
static bool parse_one(struct flash_fault *f, const char **text)
{
	size_t len = strcspn(*text, "@");
	const char *number = *text + len + 1;
	char *end;

	for (size_t k = 0; k < ARRAY_LEN(kind_names); k++) {
		if (strlen(kind_names[k]) != len ||
			memcmp(kind_names[k], *text, len) || !(*text)[len] ||
			!isdigit((unsigned char)*number))
			continue;
		errno = 0;
		f->fault[f->n].kind = (enum fault_kind)k;
		f->fault[f->n].at = strtoull(number, &end, 10);
		f->fault[f->n].on = *end == '+';
		*text = end + (*end == '+');
		return !errno && f->fault[f->n++].at > 0;
	}
	return false;
}

static bool parse_plan(struct flash_fault *f, const char *text)
{
	while (f->n < PLAN_MAX && parse_one(f, &text)) {
		if (!*text)
			return true;
		if (*text++ != ',')
			return false;
	}
	return false;
}

int flash_fault_parse(struct flash_fault **out, const char *plan, struct err *e)
{
	struct flash_fault *f = calloc(1, sizeof(*f));

	if (!f)
		return err_sys(e, ENOMEM, "fault plan '%s'", plan);
	if (parse_plan(f, plan)) {
		*out = f;
		return 0;
	}
	free(f);
	return err_set(e, EINVAL,
		"fault plan '%s': 1 to %d of eio@N, short@N, flip@N, stall@N "
		"and shrink@N, separated by commas; N counts reads from 1, "
		"'N+' means that one and all after it",
		plan, PLAN_MAX);
}

void flash_fault_free(struct flash_fault *f)
{
	free(f);
}

/* ---- the deed ---- */

void fault_init(struct fault_state *s, const struct flash_fault *plan)
{
	*s = (struct fault_state){ .plan = plan, .end = UINT64_MAX };
}

static bool fault_on(
	const struct flash_fault *f, enum fault_kind kind, uint64_t number)
{
	for (size_t i = 0; f && i < f->n; i++)
		if (f->fault[i].kind == kind &&
			(number == f->fault[i].at ||
				(f->fault[i].on && number > f->fault[i].at)))
			return true;
	return false;
}

uint64_t fault_number(struct fault_state *s, const struct block *b)
{
	uint64_t number = ++s->reads;

	if (fault_on(s->plan, FAULT_SHRINK, number) && b->off < s->end)
		s->end = b->off;
	return number;
}

/* What a file that ends at `end` would have given. */
static void cut_at(struct block *b, uint64_t end)
{
	if (b->off >= end)
		b->res = 0;
	else if (b->res > 0 && (uint64_t)b->res > end - b->off)
		b->res = (int64_t)(end - b->off);
}

bool fault_apply(const struct fault_state *s, uint64_t number, struct block *b,
	size_t useful)
{
	const struct flash_fault *f = s->plan;

	if (!f)
		return true;
	if (fault_on(f, FAULT_STALL, number))
		return false;
	cut_at(b, s->end);
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
