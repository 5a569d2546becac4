/*
 * Parts of a measurement, made by machines that know nothing of one another: of
 * each task a shard has every N-th item, so that all of them take about as
 * long. What each found is one JSON object, which tells the command line that
 * it was found by and the sums that are not rounded; together they are what one
 * run would have found. docs/sweeps.md. One thread.
 */
#ifndef HOST_EVAL_SHARD_H
#define HOST_EVAL_SHARD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define SHARDS_MAX 4096

/* The shard `index`, from 0 on, of `of`; all zero: everything. */
struct shard {
	uint32_t index, of;
};

/* "2/4" is the second of four, NULL everything. -EINVAL. */
int shard_parse(struct shard *, const char *text, struct err *);

bool shard_has(const struct shard *, size_t item);
/* How many of n items. */
size_t shard_count(const struct shard *, size_t n);

/*
 * The words of a command line, without the options that may differ from shard
 * to shard: the shard, where output goes, and its form. NULL: no memory. To be
 * called before options are parsed, which changes their order.
 */
json_t *shard_arguments(int argc, char *const *argv);

/* The member "shard" of what is found: index and number, the version of the
 * program, and `arguments`, of which it takes a reference. */
json_t *shard_json(const struct shard *, json_t *arguments);

/* All shards of one measurement, in their order. */
struct shards {
	json_t **one;
	const char **path;
	unsigned n;
};

/*
 * From these files; "-" is standard input. -EINVAL with its name for a file
 * that is no shard, is not complete, or was found by another command line or
 * another version; and for one that is missing or there twice. Starts zeroed,
 * shards_release in any case.
 */
int shards_read(struct shards *, char *const *paths, unsigned n, struct err *);
void shards_release(struct shards *);

/* Their command line, [of it] words and a NULL, which the caller frees; the
 * words are the shards'. NULL: no memory. */
char **shards_arguments(const struct shards *, unsigned *n);

/* A member that must be the same in all: -EINVAL names it and the two files
 * where it differs. NULL, and 0, where none has it. */
int shards_common(const struct shards *, const char *member, const json_t **out,
	struct err *);

#endif
