/*
 * Opens sessions on a real device process, for tests of the host and device
 * together. TANDEM_NPU names the device program. If TANDEM_NPU is not set, the
 * test is skipped and reported as skipped.
 */
#ifndef TESTS_HOST_SESSION_PAIR_H
#define TESTS_HOST_SESSION_PAIR_H

#include "base/err.h"
#include "host/session/session.h"
#include "tests/harness.h"

#include <stdlib.h>
#include <unistd.h>

static inline void pair_need(void)
{
	const char *npu = getenv("TANDEM_NPU");

	if (!npu || access(npu, X_OK)) {
		print_message("skipped: TANDEM_NPU names no device program\n");
		skip();
	}
}

static inline void pair_open(struct session **s, const struct model *m,
	const struct session_opts *opts)
{
	struct err e = { 0 };

	if (!opts->npu)
		pair_need();
	assert_ok(session_open(s, m, opts, &e), &e);
}

/* Compute the rows of a token tree after the session's text. Returns the result
 * of session_forward. */
static inline int pair_tree(struct session *s, const int32_t *token,
	const int32_t *parent, uint32_t n, const struct session_hooks *hooks,
	struct err *e)
{
	static struct row row[WIRE_MAX_ROWS];
	const struct rows rows = { VISIBILITY_TREE, n, row };

	rows_tree(row, SESSION_TEXT, session_length(s, SESSION_TEXT), token,
		parent, n);
	return session_forward(s, &rows, hooks, e);
}

/* Close the session. A violation of the coherence contract (missing cache
 * maintenance) fails the test. */
static inline void pair_close(struct session **s)
{
	struct err e = { 0 };

	assert_ok(session_close(*s, &e), &e);
	*s = NULL;
}

#endif
