/*
 * A GGUF file shown to people (text) and to programs (JSON). Shows what the
 * file says, whether or not this program could run it; strings are escaped
 * for the terminal, and long values are cut.
 */
#ifndef HOST_CMD_INSPECT_H
#define HOST_CMD_INSPECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct gguf;

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

/* What model it is, a line for each thing. */
void inspect_print_model(const struct gguf *, FILE *);

/* What a diffusion model's masks are, for JSON; NULL: of another, no memory. */
json_t *inspect_diffusion_json(const struct inspection *);

void inspect_print(const char *path, const struct gguf *, FILE *);

/* {"version": 1, "command": "inspect", ...}; NULL without memory. */
json_t *inspect_json(const char *path, const struct gguf *);

#endif
