/*
 * Shows a model file as text or JSON: the contents of a GGUF file, whether or
 * not this program can run it, and for a flash image its extents and the types
 * of its tensors in memory. Strings are escaped for the terminal, and long
 * values are truncated.
 */
#ifndef HOST_CMD_INSPECT_H
#define HOST_CMD_INSPECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct gguf;
struct packed;

/* Metadata of a model; 0 and "" if the file has none. */
struct inspection {
	char arch[64], name[128];
	char tokenizer[128]; /* "gpt2, pre qwen2" */
	const char *chat;    /* chat_name() */
	uint64_t parameters; /* values in all tensors */
	uint64_t tensor_bytes;
	uint64_t layers, embd, heads, kv_heads, head_dim, ff, context, vocab;
	bool diffusion;        /* diffusion model */
	uint64_t block_length; /* of block diffusion */
	int64_t mask_token;    /* -1: not in the file */
	/* logits of a row predict the next position, not its own */
	bool shift_logits;
	bool tied; /* the embedding is also the output matrix */
};

void inspect_gguf(struct inspection *, const struct gguf *);

void inspect_print(const char *path, const struct gguf *, FILE *);

/* {"version": 1, "command": "inspect", ...}; NULL: no memory. */
json_t *inspect_json(const char *path, const struct gguf *);

/* For a flash image, whose gguf is packed_open's. */
void inspect_image_print(
	const char *path, const struct packed *, const struct gguf *, FILE *);

/* {"version": 1, "command": "inspect", "format": "flash image", ...}; NULL: no
 * memory. */
json_t *inspect_image_json(
	const char *path, const struct packed *, const struct gguf *);

#endif
