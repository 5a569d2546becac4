/*
 * Programs of a CPU and a device with a cache, and what must come of them. The
 * CPU writes between requests; what it wrote is invalidated when the next one
 * begins, and what the device wrote is cleaned at once or by its end. So the
 * model of a correct program is one array of words. Of calls that are forgotten
 * it knows a little more, line by line: whether the device has the line, which
 * words of it are old there, and whether it owes a clean.
 *
 * Written from the contract (docs/coherence.md); knows nothing of the device's
 * code but the words of its reports. Owns its texts. One thread.
 */
#ifndef TESTS_STRESS_COHERENCE_MODEL_H
#define TESTS_STRESS_COHERENCE_MODEL_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

#define COHERENCE_MODEL_LINES 32
#define COHERENCE_MODEL_WORDS (COHERENCE_MODEL_LINES * 16)
/* More are not forgotten: of very many reports the last are only counted. */
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
	bool dirty;       /* and wrote it, and has not been told to clean it */
	bool told;        /* the CPU wrote it since the last request began */
	uint32_t bracket; /* of its last write */
	uint32_t news;    /* words that the CPU wrote since the device heard */
	bool owed;        /* its clean was left out in this request */
	/* Of calls left out, what this line waits for; NULL: none. */
	struct forgotten *invalidate, *clean;
	bool tainted; /* nothing is known any more of its words */
};

struct coherence_model {
	struct strbuf text, expected; /* the program; words of its answers */
	uint32_t n_words, n_lines;
	bool check, by_run;
	bool forget_next;
	bool open; /* the device is at work on a request */
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

/* Ranges are brought into the buffer. */
void coherence_model_cpu(struct coherence_model *, uint32_t at, uint32_t n);
void coherence_model_read(struct coherence_model *, uint32_t at, uint32_t n);
void coherence_model_write(
	struct coherence_model *, uint32_t at, uint32_t n, bool clean_now);
void coherence_model_dma(struct coherence_model *, uint32_t at, uint32_t n);
/* The device's request ends. */
void coherence_model_done(struct coherence_model *);
/* So does the program. */
void coherence_model_end(struct coherence_model *);

/* 0 when the answer is what must come of it; -EILSEQ with what is not. Neither
 * text lacks anything. */
int coherence_model_judge(
	struct coherence_model *, const char *answer, struct err *);

#endif
