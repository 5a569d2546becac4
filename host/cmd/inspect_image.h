/*
 * A flash image shown to people (text) and to programs (JSON): the model, the
 * extents, and the types that its tensors have in memory.
 */
#ifndef HOST_CMD_INSPECT_IMAGE_H
#define HOST_CMD_INSPECT_IMAGE_H

#include <jansson.h>
#include <stdio.h>

struct gguf;
struct packed;

/* The gguf is packed_open's. */
void inspect_image_print(
	const char *path, const struct packed *, const struct gguf *, FILE *);

/* {"version": 1, "command": "inspect", "format": "flash image", ...}; NULL
 * without memory. */
json_t *inspect_image_json(
	const char *path, const struct packed *, const struct gguf *);

#endif
