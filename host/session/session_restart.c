/*
 * A device that is lost is replaced by another of its kind. All that a text is
 * made of is the host's, in memory it shares: the new one is given the same
 * buffers, and the pass that was broken off is run again from its tokens, into
 * the slots of the cache that it had claimed. Nothing of what the lost device
 * was writing is read (docs/recovery.md).
 */
#include "host/session/session_impl.h"
#include "host/trace/trace.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/npu/npu.h"

#include <stdio.h>

static int reach(struct session *s, struct err *e)
{
	int ret;

	if (!s->owns_npu) {
		ret = reach(s->opts.beside, e);
		return ret ? ret : session_take_over(s->opts.beside, e);
	}
	return npu_reopen(s->npu, e);
}

int session_follow(struct session *s, struct err *e)
{
	if (!s->attached || s->generation == npu_generation(s->npu))
		return 0;
	return session_take_over(s, e);
}

/* It is one line on a terminal. */
static void tell(const struct session *s, const char *how, uint64_t ns)
{
	char text[ERR_TEXT_MAX + 80];

	snprintf(text, sizeof(text),
		"%s; another (pid %d) took its place within %.1f ms", how,
		(int)npu_pid(s->npu), (double)ns / 1e6);
	if (s->opts.notice.tell)
		s->opts.notice.tell(s->opts.notice.arg, text);
}

/* Another, and another again where that is lost in turn. */
static int replace(struct session *s, int lost,
	int (*attach)(struct session *, struct err *), struct err *e)
{
	uint64_t began = clock_ns(), took;
	struct err how = *e;
	int ret = lost;

	while (ret && npu_may_reopen(s->npu, ret, e)) {
		trace_begin(s->trace, TRACE_RESTART, npu_generation(s->npu), 0);
		ret = reach(s, e);
		if (!ret)
			ret = attach(s, e);
		trace_end(s->trace, TRACE_RESTART);
	}
	if (ret)
		return ret;
	took = clock_ns() - began;
	npu_restarted(s->npu, took);
	tell(s, how.text, took);
	return 0;
}

static int recover(struct session *s, int lost,
	int (*attach)(struct session *, struct err *), struct err *e)
{
	struct err why = { 0 };
	int ret;

	if (e)
		why = *e;
	ret = replace(s, lost, attach, &why);
	if (ret && e)
		*e = why;
	return ret;
}

int session_recover(struct session *s, int lost, struct err *e)
{
	return lost ? recover(s, lost, session_take_over, e) : 0;
}

int session_attach_part(struct session *s,
	int (*attach)(struct session *, struct err *), struct err *e)
{
	int ret = attach(s, e);

	return ret ? recover(s, ret, attach, e) : 0;
}
