/*
 * The server's API keys. A client that sends one of the keys is admitted. The
 * keys are read from a file with one key on each line. The time that a
 * comparison takes reveals neither how many characters of the client's key were
 * right nor which of the server's keys was similar.
 */
#ifndef HOST_SERVE_API_KEY_H
#define HOST_SERVE_API_KEY_H

#include <stdbool.h>
#include <stddef.h>

struct err;

struct api_keys {
	/* Contents of the file. NULL if the server has no keys and admits every
	 * client. */
	char *text;
	size_t len;
};

/* Read a key file; the caller releases the keys. Returns 0, -EINVAL if the file
 * has no key or other users may read the file, or another negative errno. */
int api_keys_read(struct api_keys *, const char *path, struct err *);
void api_keys_release(struct api_keys *);

/* Whether the value of a request's Authorization header admits the client. The
 * value is NULL if the request has no such header. */
bool api_keys_admit(const struct api_keys *, const char *authorization);

#endif
