/*
 * Writes a program, which is a list of accesses of a CPU and of a device with a
 * cache (as text for tests/stress/rehearse.h), and predicts its results. The
 * CPU writes between requests; the device invalidates the written lines when
 * the next request begins, and cleans each of its own writes right after the
 * write or, at the latest, at the end of the request. So one array of words
 * suffices to predict what a correct program
 * reads. To predict the effect of maintenance calls that are left out, the
 * model also records three facts about each line: whether the line is in the
 * device's cache, which words are old in the cache, and whether a clean is
 * missing.
 *
 * The model is written from the rules (docs/coherence.md) and depends on the
 * device's code only by the text of reports. The model owns its text buffers.
 * Only one thread may use a model.
 */
#ifndef TESTS_STRESS_COHERENCE_MODEL_H
#define TESTS_STRESS_COHERENCE_MODEL_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

#define COHERENCE_MODEL_LINES 32
#define COHERENCE_MODEL_WORDS (COHERENCE_MODEL_LINES * 16)
/* The largest number of calls that a program leaves out. This limit is small
 * because the checker prints only a limited number of reports. */
#define COHERENCE_MODEL_FORGETS 4

/* A maintenance call that was left out. Each bit of a mask stands for a line.
 */
struct forgotten {
	bool invalidate; /* true: an invalidation; false: a clean */
	uint32_t lines;
	/* lines that the checker must report, or may report */
	uint32_t must, may;
	uint32_t reported;
};

struct model_line {
	bool cached; /* the line is in the device's cache */
	bool dirty;  /* the device wrote the line and has not cleaned it */
	/* the CPU wrote the line after the latest request began, so the next
	 * request declares the line as written */
	bool declared;
	/* number of the bracket in which the CPU wrote the line most
	 * recently */
	uint32_t bracket;
	uint32_t
		/* words that the CPU wrote since the line was last
		 * invalidated */
		news;
	bool owed; /* the clean of the line was left out in this request */
	/* The omitted calls that affect this line, or NULL. */
	struct forgotten *invalidate, *clean;
	bool tainted; /* the device's words of the line are unknown */
};

struct coherence_model {
	/* the text of the program, and the words that its reads must return */
	struct strbuf text, expected;
	uint32_t n_words, n_lines;
	bool check, by_run;
	bool forget_next;
	bool open; /* a request is in progress */
	uint32_t request, bracket, value;
	/* the newest value of each word */
	uint32_t word[COHERENCE_MODEL_WORDS];
	struct model_line line[COHERENCE_MODEL_LINES];
	struct forgotten forgotten[COHERENCE_MODEL_FORGETS];
	uint32_t n_forgotten;
	uint64_t steps, reads, calls, named, harmless;
};

/* Begin a program. Before the call, the struct must be zero or released. */
void coherence_model_init(struct coherence_model *, const char *level,
	uint32_t lines, bool by_run, uint32_t evict);
void coherence_model_release(struct coherence_model *);

/* Append an access of the CPU or of the device. Ranges are clamped to the
 * buffer. */
void coherence_model_cpu(struct coherence_model *, uint32_t at, uint32_t n);
void coherence_model_read(struct coherence_model *, uint32_t at, uint32_t n);
void coherence_model_write(
	struct coherence_model *, uint32_t at, uint32_t n, bool clean_now);
void coherence_model_dma(struct coherence_model *, uint32_t at, uint32_t n);
/* End the device's request. */
void coherence_model_done(struct coherence_model *);
/* End the program. */
void coherence_model_end(struct coherence_model *);

/* Compare the results with the expected ones. Returns 0, or -EILSEQ with a
 * message that has the difference. Before the call, check that no append has
 * failed. */
int coherence_model_check(
	struct coherence_model *, const char *answer, struct err *);

#endif
