#include "host/serve/api_key.h"

#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define FILE_MAX ((size_t)1 << 20)

/* Set *key and *len to the first non-empty line of k->text at or after offset
 * *at, and move *at to the offset after the line. Returns false if there is no
 * such line. */
static bool next_key(
	const struct api_keys *k, size_t *at, const char **key, size_t *len)
{
	while (*at < k->len) {
		const char *line = k->text + *at;

		*len = strcspn(line, "\r\n");
		*key = line;
		*at += *len + 1;
		if (*len)
			return true;
	}
	return false;
}

int api_keys_read(struct api_keys *k, const char *path, struct err *e)
{
	const char *key;
	struct stat st;
	size_t at = 0, len;
	int ret;

	*k = (struct api_keys){ 0 };
	if (strcmp(path, "-") && !stat(path, &st) && S_ISREG(st.st_mode) &&
		(st.st_mode & 0077))
		return err_set(e, EINVAL,
			"other users may read the keys in '%s'; try chmod 600",
			path);
	ret = fd_read_file(path, FILE_MAX, &k->text, &k->len, e);
	if (!ret && !next_key(k, &at, &key, &len)) {
		api_keys_release(k);
		ret = err_set(e, EINVAL,
			"'%s' holds no key; write one key per line", path);
	}
	return ret;
}

void api_keys_release(struct api_keys *k)
{
	if (k->text)
		explicit_bzero(k->text, k->len);
	free(k->text);
	*k = (struct api_keys){ 0 };
}

bool api_keys_admit(const struct api_keys *k, const char *authorization)
{
	const char *key;
	size_t at = 0, len;
	bool admitted = false;

	if (!k->text)
		return true;
	if (!authorization || strncasecmp(authorization, "Bearer ", 7))
		return false;
	authorization += 7;
	while (next_key(k, &at, &key, &len)) {
		/* The number of steps of this comparison depends only on the
		 * length of the client's header, not on the server's key, so
		 * the time reveals nothing about the key. */
		size_t given_len = strlen(authorization);
		unsigned d = len != given_len;

		for (size_t i = 0; i < given_len; i++)
			d |= (unsigned)(unsigned char)authorization[i] ^
				(unsigned char)key[i % len];
		admitted |= !d;
	}
	return admitted;
}
