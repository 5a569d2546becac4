/*
 * Programs of a CPU and a device with a cache, and their expected results. The
 * CPU writes between requests; its writes are invalidated when the next request
 * begins, and the device's writes are cleaned at once or by the request's end.
 * So the model of a correct program is one array of words. For calls that are
 * left out it keeps more, for each line: whether it is in the device's cache,
 * which of its words are old there, and whether a clean is missing.
 *
 * Written from the contract (docs/coherence.md); it depends on the device's
 * code only by the text of reports. Owns its texts. One thread.
 */
#ifndef TESTS_STRESS_COHERENCE_MODEL_H
#define TESTS_STRESS_COHERENCE_MODEL_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

#define COHERENCE_MODEL_LINES 32
#define COHERENCE_MODEL_WORDS (COHERENCE_MODEL_LINES * 16)
/* At most so many are left out, because later reports are only counted. */
#define COHERENCE_MODEL_FORGETS 4

/* A call that was left out; lines are bits. */
struct forgotten {
	bool invalidate; /* else a clean */
	uint32_t lines;
	uint32_t must, may; /* of them, that the checker must or may name */
	uint32_t reported;
};

struct model_line {
	bool cached;      /* the device has it */
	bool dirty;       /* the device wrote it and has not cleaned it */
	bool declared;    /* the CPU wrote it since the last request began */
	uint32_t bracket; /* of its last write */
	uint32_t
		news; /* words that the CPU wrote since the last invalidation */
	bool owed;    /* its clean was left out in this request */
	/* The call left out that affects this line; NULL: none. */
	struct forgotten *invalidate, *clean;
	bool tainted; /* its words are unknown */
};

struct coherence_model {
	struct strbuf text, expected; /* the program; words of its answers */
	uint32_t n_words, n_lines;
	bool check, by_run;
	bool forget_next;
	bool open; /* a request is in progress */
	uint32_t request, bracket, value;
	uint32_t word[COHERENCE_MODEL_WORDS]; /* the newest */
	struct model_line line[COHERENCE_MODEL_LINES];
	struct forgotten forgotten[COHERENCE_MODEL_FORGETS];
	uint32_t n_forgotten;
	uint64_t steps, reads, calls, named, harmless;
};

/* Zeroed, or released, before. */
void coherence_model_init(struct coherence_model *, const char *level,
	uint32_t lines, bool by_run, uint32_t evict);
void coherence_model_release(struct coherence_model *);

/* Ranges are clamped to the buffer. */
void coherence_model_cpu(struct coherence_model *, uint32_t at, uint32_t n);
void coherence_model_read(struct coherence_model *, uint32_t at, uint32_t n);
void coherence_model_write(
	struct coherence_model *, uint32_t at, uint32_t n, bool clean_now);
void coherence_model_dma(struct coherence_model *, uint32_t at, uint32_t n);
/* The device's request ends. */
void coherence_model_done(struct coherence_model *);
/* So does the program. */
void coherence_model_end(struct coherence_model *);

/* 0 when the results are the expected ones; -EILSEQ with the difference. Both
 * texts must be complete. */
int coherence_model_judge(
	struct coherence_model *, const char *answer, struct err *);

#endif
