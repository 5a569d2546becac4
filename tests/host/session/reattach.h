/*
 * Connects a session to a new device after a loss. reattach() does the same as
 * session_recover, but does not need opts.restarts, so that the test sees each
 * loss.
 */
#ifndef TESTS_HOST_SESSION_REATTACH_H
#define TESTS_HOST_SESSION_REATTACH_H

#include "host/npu/npu.h"
#include "host/session/session_impl.h"

static inline int reattach(struct session *s, struct err *e)
{
	int ret;

	s->attached = false;
	ret = npu_reopen(s->npu, e);
	return ret ? ret : session_take_over(s, e);
}

#endif
