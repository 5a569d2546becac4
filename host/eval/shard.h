/*
 * Shards: parts of a measurement that several machines can run without a
 * connection between them (docs/sweeps.md). Each of N shards runs every N-th
 * item, so that all shards take about the same time. Each shard writes a JSON
 * object with its command line and unrounded sums. The objects of all shards
 * are merged into the result that a single run would give. Single-threaded.
 */
#ifndef HOST_EVAL_SHARD_H
#define HOST_EVAL_SHARD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define SHARDS_MAX 4096

/* Shard `index` (from 0) of `of` shards; both 0 means all items. */
struct shard {
	uint32_t index, of;
};

/* Parse "2/4", which means the second of four shards; NULL means all items.
 * Returns 0, or -EINVAL if the text is not valid. */
int shard_parse(struct shard *, const char *text, struct err *);

bool shard_has(const struct shard *, size_t item);
/* Return the number of items of this shard among n items. */
size_t shard_count(const struct shard *, size_t n);

/*
 * Return the words of a command line, except the options that may differ
 * between shards: --shard, --outputs and --json. Returns NULL if out of memory.
 * Call this before the options are parsed, because parsing reorders the words.
 */
json_t *shard_arguments(int argc, char *const *argv);

/* Return the member "shard" of a JSON output: index and number of shards, the
 * version of the program, and `arguments`, whose reference count is
 * incremented. Returns NULL if out of memory. */
json_t *shard_json(const struct shard *, json_t *arguments);

/* All shards of one measurement. */
struct shards {
	json_t **one;
	const char **path;
	unsigned n;
};

/*
 * Read the files of all shards; "-" is standard input. The caller zeroes the
 * struct, and releases it with shards_release() even on failure. Returns 0 on
 * success. Returns -EINVAL if a file is not a shard or is incomplete, if its
 * command line or program version differs from the first file's, or if a shard
 * is missing or occurs twice. The message names the file or the shard.
 */
int shards_read(struct shards *, char *const *paths, unsigned n, struct err *);
void shards_release(struct shards *);

/* Return the shards' command line as an array of words, ended by NULL. The
 * caller frees the array; the words belong to the shards. Returns NULL if out
 * of memory. */
char **shards_arguments(const struct shards *, unsigned *n);

/* Get a member that must be equal in all shards; *out is NULL if no shard has
 * it. Returns 0, or -EINVAL if the member differs; the message names the member
 * and two files. */
int shards_common(const struct shards *, const char *member, const json_t **out,
	struct err *);

#endif
