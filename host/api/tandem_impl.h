/* The contents of struct tandem, a handle of tandem.h. All calls must be made
 * on one thread. */
#ifndef HOST_API_TANDEM_IMPL_H
#define HOST_API_TANDEM_IMPL_H

#include "base/err.h"
#include "host/api/decoder.h"

#include <signal.h>
#include <stdint.h>

struct draft_model;
struct scheduler;
struct tandem_submitted;
struct token_trie;

struct tandem {
	struct decoder decoder;
	/* copies of the strings in options.set; decoder.options points to these
	 * copies */
	char **setting;
	char *program;
	volatile sig_atomic_t canceled;
	/* if not 0, all later calls except tandem_close return this status */
	int dead;
	struct err err;
	/* The request of the last tandem_generate (host/api/request_impl.h).
	 * NULL if there was none or it could not be opened. */
	struct tandem_submitted *last;
	/* List of the submitted requests that are not closed, in the order of
	 * submission. */
	struct tandem_submitted *first_request;
	uint64_t submitted; /* number of requests that have been submitted */
	/* runs the passes of all requests; NULL before the first request */
	struct scheduler *scheduler;
	/* Called while samples are generated: `line` describes their state,
	 * `over` of `of` samples have ended. NULL: no such reports. */
	void (*watch_samples)(const char *line, uint32_t over, uint32_t of);
	bool advancing; /* a call of tandem_advance is running */
	/* trie of the vocabulary; NULL until it is needed */
	struct token_trie *trie;
	/* the model that lone_model_open has opened (host/api/tandem_pass.h);
	 * NULL if there is none */
	struct draft_model *lone_model;
};

/* Convert a return value (0, -errno or -ERR_DEVICE_LOST) to enum
 * tandem_status. */
int tandem_status_of(int ret);

/*
 * Functions of the library call tandem_settle at their end, with the status
 * that they return. If the device was lost, the handle is marked as dead; if
 * the call was canceled, the cancelation is reset. Returns `status`.
 */
int tandem_settle(struct tandem *, int status);

/*
 * Copy the caller's struct *theirs to *ours, a struct of `size` bytes that must
 * already hold the defaults of this version of the library. `theirs` is shorter
 * if the caller was built with an older version, or is a binding that declares
 * only the first members; the remaining members then keep their defaults.
 * `theirs` is longer if the caller was built with a newer version; members that
 * this version does not have must then be zero. `name` is the name of the
 * struct without "struct ".
 *
 * Returns -EINVAL if the caller's `size` is 0 or not a multiple of 8 (a sign
 * that the struct was never initialized), or if an unknown member is not zero.
 * No member crosses a multiple of 8 bytes, so a size that is a multiple of 8
 * never cuts a member.
 */
int tandem_adopt(void *ours, size_t size, const void *theirs, const char *name,
	struct err *);

#endif
