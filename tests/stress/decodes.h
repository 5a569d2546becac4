/*
 * Generates short texts from tiny models of random weights, by every decoding
 * method that these models allow. Each result is compared with a text that was
 * generated without faults: by autoregressive decoding for methods that must
 * reproduce the text of autoregressive decoding, and by the same method for all
 * other methods. The texts for comparison are generated once and kept in shared
 * memory.
 *
 * The model files are created in `folder`, the argument of decodes_open, when
 * they are first needed. Only one process at a time may use these functions.
 */
#ifndef TESTS_STRESS_DECODES_H
#define TESTS_STRESS_DECODES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECODE_TOKENS 12
#define DECODE_WAYS   18

struct decodes;

/* The names of the methods, then NULL. */
extern const char *const decode_ways[DECODE_WAYS + 1];
/* Whether the method streams the model from a flash image. */
bool decode_is_streamed(unsigned way);
/* Whether the method loads and drops graphs while it decodes. */
bool decode_moves_graphs(unsigned way);

int decodes_open(struct decodes **out, const char *folder, struct err *);
void decodes_close(struct decodes *);

struct decoded {
	int status; /* status of libtandem (enum tandem_status) */
	int32_t id[4 * DECODE_TOKENS];
	unsigned n;
	unsigned restarts; /* number of notices about a replaced device */
	char error[ERR_TEXT_MAX];
};

/* Callbacks for events while decoding. Each may be NULL. */
struct decode_watch {
	/* the weights are loaded and the device runs */
	void (*opened)(void *arg);
	/* a device was replaced */
	void (*replaced)(void *arg, const char *sentence);
	void *arg;
};

/*
 * Decode with this method and additional settings ("name=value", ending with
 * NULL). *out is the result, a success or a failure. Everything is closed
 * afterwards. `watch` may be NULL.
 */
void decode(const struct decodes *, unsigned way, const char *const *more,
	const struct decode_watch *watch, struct decoded *out);

/*
 * Get the text that this method must generate. Returns 0 with *out, or a
 * negative errno. Call this function before any decode with the method, because
 * this function creates the model files.
 */
int decode_wanted(struct decodes *, unsigned way, const struct decoded **out,
	struct err *);

/* Whether the tokens are equal. If not, `how` is a short text with the
 * difference. */
bool decode_same(const struct decoded *got, const struct decoded *want,
	char *how, size_t size);

#endif
