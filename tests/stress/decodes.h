/*
 * Short texts from tiny models of random weights, by every decoding method that
 * these allow. Each is compared with an undisturbed text: that of
 * autoregressive decoding for methods that reproduce it, and for other methods
 * their own text. Those texts are generated once, in shared memory.
 *
 * The files are made in the folder of stress_area.prepare when they are needed
 * first. One process at a time.
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

/* Their names, NULL at the end. */
extern const char *const decode_ways[DECODE_WAYS + 1];
/* The model is streamed from a flash image. */
bool decode_is_streamed(unsigned way);
/* Graphs are loaded and dropped meanwhile. */
bool decode_moves_graphs(unsigned way);

int decodes_open(struct decodes **out, const char *folder, struct err *);
void decodes_close(struct decodes *);

struct decoded {
	int status; /* of libtandem (enum tandem_status) */
	int32_t id[4 * DECODE_TOKENS];
	unsigned n;
	unsigned restarts; /* notices about replaced devices */
	char error[ERR_TEXT_MAX];
};

/* Callbacks for events meanwhile; both may be NULL. */
struct decode_watch {
	void (*opened)(void *arg); /* weights and device are there */
	void (*replaced)(void *arg, const char *sentence); /* a device was */
	void *arg;
};

/*
 * Decode with this method and additional settings ("name=value", NULL at the
 * end): the result, success or failure, with everything closed. `watch` may be
 * NULL.
 */
void decode(const struct decodes *, unsigned way, const char *const *more,
	const struct decode_watch *watch, struct decoded *out);

/* The undisturbed text of this method: 0 and *out, or -errno. Call before any
 * decode with the method, because it makes the files. */
int decode_wanted(struct decodes *, unsigned way, const struct decoded **out,
	struct err *);

/* Whether the ids are equal; else a short text of the difference. */
bool decode_same(const struct decoded *got, const struct decoded *want,
	char *how, size_t size);

#endif
