/*
 * Decoding methods. A method is one file here that reads like its algorithm,
 * standing on host/session.h; adding one touches that file, its test and one
 * row of the table in method.c.
 *
 * The generation is what a method produces into: it holds the prompt and all
 * tokens so far, draws from logits, prints, and knows when to stop. Methods
 * never see text, files or options.
 */
#ifndef HOST_METHOD_METHOD_H
#define HOST_METHOD_METHOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct generation;
struct session;

struct method {
	const char *name;     /* "autoregressive" */
	const char *summary;  /* one line for --help */
	bool lossless;        /* same tokens as plain decoding */
	uint32_t decode_rows; /* rows of the decode graph it wants */
	int (*run)(struct session *, struct generation *, struct err *);
};

/* The table, by name; NULL-terminated. */
extern const struct method *const methods[];
const struct method *method_find(const char *name);

extern const struct method method_autoregressive;

#endif
