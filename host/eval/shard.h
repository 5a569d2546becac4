/*
 * Shards: parts of a measurement for several machines, which need no
 * connection. A shard has every N-th item of each task, so that all shards take
 * about the same time. Each writes a JSON object with its command line and the
 * unrounded sums; from all of them the result of a single run is computed.
 * docs/sweeps.md. One thread.
 */
#ifndef HOST_EVAL_SHARD_H
#define HOST_EVAL_SHARD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define SHARDS_MAX 4096

/* Shard `index`, from 0, of `of`; zeroed: all items. */
struct shard {
	uint32_t index, of;
};

/* Parse "2/4", the second of four; NULL: all items. -EINVAL. */
int shard_parse(struct shard *, const char *text, struct err *);

bool shard_has(const struct shard *, size_t item);
/* Number of this shard's items among n. */
size_t shard_count(const struct shard *, size_t n);

/*
 * The words of a command line without the options that may differ between
 * shards: the shard, the destination of the output, and its form. NULL: no
 * memory. Call before the options are parsed, which reorders them.
 */
json_t *shard_arguments(int argc, char *const *argv);

/* The member "shard" of an output: index and number, the version of the
 * program, and `arguments`, to which it takes a reference. */
json_t *shard_json(const struct shard *, json_t *arguments);

/* All shards of one measurement, by index. */
struct shards {
	json_t **one;
	const char **path;
	unsigned n;
};

/*
 * Read these files; "-" is standard input. -EINVAL with the file's name if it
 * is no shard, is incomplete, or has another command line or version; and if a
 * shard is missing or occurs twice. Starts zeroed, shards_release in any case.
 */
int shards_read(struct shards *, char *const *paths, unsigned n, struct err *);
void shards_release(struct shards *);

/* Their command line, an array of words and a NULL, which the caller frees; the
 * shards own the words. NULL: no memory. */
char **shards_arguments(const struct shards *, unsigned *n);

/* A member that must be equal in all shards: -EINVAL names it and two files in
 * which it differs. NULL and 0 if no shard has it. */
int shards_common(const struct shards *, const char *member, const json_t **out,
	struct err *);

#endif
