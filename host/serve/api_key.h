/*
 * Keys that admit a client, one on each line of a file. The time of a
 * comparison does not reveal how many characters of a key were right, nor which
 * key was similar.
 */
#ifndef HOST_SERVE_API_KEY_H
#define HOST_SERVE_API_KEY_H

#include <stdbool.h>
#include <stddef.h>

struct err;

struct api_keys {
	char *text; /* NULL: there are no keys, and every client is admitted */
	size_t len;
};

/* -EINVAL if the file has no key, or other users can read it. */
int api_keys_read(struct api_keys *, const char *path, struct err *);
void api_keys_release(struct api_keys *);

/* Check the value of an Authorization header; NULL: the request has none. */
bool api_keys_admit(const struct api_keys *, const char *authorization);

#endif
