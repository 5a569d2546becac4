/* What is behind tandem.h. One thread, as there. */
#ifndef HOST_API_TANDEM_IMPL_H
#define HOST_API_TANDEM_IMPL_H

#include "base/err.h"
#include "host/api/decoder.h"
#include "host/api/tandem.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#include <signal.h>
#include <stdint.h>

struct lanes;
struct tandem_submitted;
struct token_list;
struct token_trie;

struct tandem {
	struct decoder decoder;
	char **setting; /* what options.set said, which decoder.options borrow
			 */
	char *program;
	volatile sig_atomic_t canceled;
	int dead; /* the status of what cannot be mended; 0: alive */
	struct err err;
	/* Of the last tandem_generate (host/api/request_impl.h); NULL: its
	 * generation was not opened. */
	struct tandem_submitted *last;
	/* Those submitted and not closed, in that order. */
	struct tandem_submitted *first_text;
	uint64_t submitted;  /* ever */
	struct lanes *lanes; /* NULL: none was submitted, or they share none */
	/* Told of samples while they are generated; NULL: nobody. */
	void (*watch_samples)(const char *line, uint32_t over, uint32_t of);
	bool advancing;          /* one of their callbacks may be running */
	struct token_trie *trie; /* NULL: no form was asked for yet */
};

/* The tokens of a request's prompt, appended: 0, or a status as of
 * tandem_generate. */
int tandem_read_prompt(
	struct tandem *, const struct tandem_request *, struct token_list *out);

/* 0, or what -errno or -ERR_DEVICE_LOST are in tandem.h. */
int tandem_status_of(int ret);

/* What a call returns, with what it leaves of the handle. */
int tandem_settle(struct tandem *, int status);

/*
 * A struct of the caller's to one of ours, which holds the defaults: its
 * header may be older, then the rest stays, or newer, then what we do not know
 * must be zero. `sizes` are those that the struct has had, the present one
 * first, and a 0. False where it is none of them, or was never set.
 */
bool tandem_adopt(void *ours, const size_t *sizes, const void *theirs);

#endif
