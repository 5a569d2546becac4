/*
 * Shows a model file as text or JSON. Of a GGUF file, shows the contents, even
 * if Tandem cannot run its model. Of a flash image (a model packed for reading
 * its layers from flash), also shows the extents (contiguous parts of the
 * image) and the types that the tensors have in memory. Strings are escaped for
 * the terminal, and long values are truncated.
 */
#ifndef HOST_CMD_INSPECT_H
#define HOST_CMD_INSPECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct gguf;
struct packed;

/* Metadata of a model. Numbers are 0 and strings "" if the file does not
 * contain them. */
struct inspection {
	char arch[64], name[128];
	char tokenizer[128]; /* such as "gpt2, pre qwen2" */
	const char *chat;    /* name of the chat template, from chat_name() */
	uint64_t parameters; /* number of values in all tensors */
	uint64_t tensor_bytes;
	/* ff: width of the feed-forward network or, in a mixture of experts, of
	 * one expert */
	uint64_t layers, embd, heads, kv_heads, head_dim, ff, context, vocab;
	/* experts: number in each layer; experts_used: number that compute each
	 * token; expert_bytes: size of one expert, and experts_bytes: size of
	 * all experts of all layers, both with the tensor types of the GGUF
	 * file */
	uint64_t experts, experts_used, expert_bytes, experts_bytes;
	bool diffusion;        /* the model is a diffusion model */
	uint64_t block_length; /* block length of a block-diffusion model */
	int64_t mask_token;    /* id of the mask token; -1 if not in the file */
	/* the logits of a row predict the next position, not the row's own
	 * position */
	bool shift_logits;
	bool tied; /* the token embedding is also the output matrix */
};

void inspect_gguf(struct inspection *, const struct gguf *);

void inspect_print(const char *path, const struct gguf *, FILE *);

/* Return {"version": 1, "command": "inspect", ...}, or NULL if out of
 * memory. */
json_t *inspect_json(const char *path, const struct gguf *);

/* Print a flash image. `gguf` must come from packed_open(). */
void inspect_image_print(
	const char *path, const struct packed *, const struct gguf *, FILE *);

/* Return {"version": 1, "command": "inspect", "format": "flash image", ...}, or
 * NULL if out of memory. */
json_t *inspect_image_json(
	const char *path, const struct packed *, const struct gguf *);

#endif
