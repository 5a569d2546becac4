/* The handle of tandem.h from inside. One thread, as there. */
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
	char **setting; /* copies of options.set; decoder.options points here */
	char *program;
	volatile sig_atomic_t canceled;
	int dead; /* not 0: the status of all later calls but tandem_close */
	struct err err;
	/* The request of the last tandem_generate (host/api/request_impl.h);
	 * NULL: none, or it could not be opened. */
	struct tandem_submitted *last;
	/* Submitted requests that are not closed, in their order. */
	struct tandem_submitted *first_request;
	uint64_t submitted;  /* requests so far */
	struct lanes *lanes; /* NULL: none yet, or requests share no passes */
	/* Reports the state of samples while they are generated; may be NULL */
	void (*watch_samples)(const char *line, uint32_t over, uint32_t of);
	bool advancing;          /* tandem_advance is running */
	struct token_trie *trie; /* of the vocabulary; NULL: not needed yet */
};

/* Append the tokens of a request's prompt: enum tandem_status. */
int tandem_read_prompt(
	struct tandem *, const struct tandem_request *, struct token_list *out);

/* The enum tandem_status of 0, -errno or -ERR_DEVICE_LOST. */
int tandem_status_of(int ret);

/* Called with the status that a call returns, which it returns too: a lost
 * device makes the handle dead, and a cancelation is over. */
int tandem_settle(struct tandem *, int status);

/*
 * Copy a struct of the caller's version to ours, which holds the defaults. An
 * older struct is shorter: our other members keep their defaults. A newer one
 * is longer: its members that we do not know must be zero. `sizes` has all
 * sizes that the struct ever had, the present one first, and ends with 0. False
 * for another size, as in a struct that was never initialized.
 */
bool tandem_adopt(void *ours, const size_t *sizes, const void *theirs);

#endif
