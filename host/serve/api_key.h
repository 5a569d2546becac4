/*
 * Keys that let a client in: a line of a file each. How long a comparison takes
 * says nothing of how much of a key was right, nor of which it was like.
 */
#ifndef HOST_SERVE_API_KEY_H
#define HOST_SERVE_API_KEY_H

#include <stdbool.h>
#include <stddef.h>

struct err;

struct api_keys {
	char *text; /* NULL: there are none, and everybody is let in */
	size_t len;
};

/* -EINVAL where there is none in it, or the file is others' to read. */
int api_keys_read(struct api_keys *, const char *path, struct err *);
void api_keys_release(struct api_keys *);

/* Of the value of an Authorization header; NULL: there was none. */
bool api_keys_admit(const struct api_keys *, const char *authorization);

#endif
