/*
 * Short texts from tiny models of random weights, by every way of decoding that
 * these allow, to be held against the text without whatever is tried: that of
 * the autoregressive model for all who keep its text, and for the others their
 * own, written in quiet. Texts to compare with are written once, in memory that
 * processes share.
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
/* The model is read from a flash image meanwhile. */
bool decode_is_streamed(unsigned way);
/* Graphs change places meanwhile. */
bool decode_moves_graphs(unsigned way);

int decodes_open(struct decodes **out, const char *folder, struct err *);
void decodes_close(struct decodes *);

struct decoded {
	int status; /* of libtandem (enum tandem_status) */
	int32_t id[4 * DECODE_TOKENS];
	unsigned n;
	unsigned restarts; /* sentences of devices that were replaced */
	char error[ERR_TEXT_MAX];
};

/* Who is told of what happens meanwhile; both may be NULL. */
struct decode_watch {
	void (*opened)(void *arg); /* weights and device are there */
	void (*replaced)(void *arg, const char *sentence); /* a device was */
	void *arg;
};

/*
 * Decode that way with these settings more ("name=value", NULL at the end):
 * what came of it, whatever that is, all closed again. `watch`: NULL for none.
 */
void decode(const struct decodes *, unsigned way, const char *const *more,
	const struct decode_watch *watch, struct decoded *out);

/* The text that this way has in quiet: 0 and *out, or -errno. Before any decode
 * of that way, whose files it makes. */
int decode_wanted(struct decodes *, unsigned way, const struct decoded **out,
	struct err *);

/* The same ids; else what differs, in a few words. */
bool decode_same(const struct decoded *got, const struct decoded *want,
	char *how, size_t size);

#endif
