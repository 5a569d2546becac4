/*
 * What is behind tandem.h, for the rooms that decode through it and tell more
 * of it than it does itself: commands and their reports. They read it and
 * change nothing. One thread, as there.
 */
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
struct opt_values;
struct tandem_text;
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
	/* Of the last tandem_generate (host/api/text_impl.h); NULL: its
	 * generation was not opened. */
	struct tandem_text *last;
	/* Those submitted and not closed, in that order. */
	struct tandem_text *first_text;
	uint64_t submitted;  /* ever */
	struct lanes *lanes; /* NULL: none was submitted, or they share none */
	bool advancing;      /* one of their callbacks may be running */
	struct token_trie *trie; /* NULL: no form was asked for yet */
};

/*
 * The two halves of tandem_open, for whoever has parsed options of its own:
 * what is asked for, of which nothing is opened yet, and the model (NULL: the
 * one that comes with Tandem). `parsed` is what options.set would say, where it
 * is not NULL, and what it points at stays; options.model is not looked at.
 * The first returns -errno and, on failure, no handle.
 */
int tandem_create(struct tandem **out, const struct tandem_options *,
	const struct opt_values *parsed, struct err *);
int tandem_read_model(struct tandem *, const char *path);

/* tandem_close, which returns -errno. */
int tandem_end(struct tandem *, struct err *);

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

/* A request's samples are told of. */
void tandem_tell_samples(const struct tandem *, const struct tandem_request *);

#endif
