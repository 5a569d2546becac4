/*
 * A model file shown to people (text) and to programs (JSON): what a GGUF file
 * says, whether or not this program could run it, and of a flash image the
 * extents and the types that its tensors have in memory. Strings are escaped
 * for the terminal, and long values are cut.
 */
#ifndef HOST_CMD_INSPECT_H
#define HOST_CMD_INSPECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct gguf;
struct packed;

/* What a file says about its model; 0 and "" where it says nothing. */
struct inspection {
	char arch[64], name[128];
	char tokenizer[128]; /* "gpt2, pre qwen2" */
	const char *chat;    /* chat_name() */
	uint64_t parameters; /* values in all tensors */
	uint64_t tensor_bytes;
	uint64_t layers, embd, heads, kv_heads, head_dim, ff, context, vocab;
	bool diffusion;        /* it fills masks */
	uint64_t block_length; /* of block diffusion */
	int64_t mask_token;    /* -1: none is said */
	bool shift_logits;     /* a row says what stands behind its position */
	bool tied; /* has an embedding and no output matrix of its own */
};

void inspect_gguf(struct inspection *, const struct gguf *);

void inspect_print(const char *path, const struct gguf *, FILE *);

/* {"version": 1, "command": "inspect", ...}; NULL without memory. */
json_t *inspect_json(const char *path, const struct gguf *);

/* Of a flash image, whose gguf is packed_open's. */
void inspect_image_print(
	const char *path, const struct packed *, const struct gguf *, FILE *);

/* {"version": 1, "command": "inspect", "format": "flash image", ...}; NULL
 * without memory. */
json_t *inspect_image_json(
	const char *path, const struct packed *, const struct gguf *);

#endif
