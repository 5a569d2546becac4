#include "host/eval/shard.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/version.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- selecting items ----------------------------------------------------- */

int shard_parse(struct shard *s, const char *text, struct err *e)
{
	unsigned index, of;
	int used = 0;

	*s = (struct shard){ 0 };
	if (!text)
		return 0;
	/* Accept only digits and '/', because sscanf would also accept blanks
	 * and signs. */
	if (text[strspn(text, "0123456789/")] || strlen(text) > 11 ||
		sscanf(text, "%u/%u%n", &index, &of, &used) != 2 ||
		text[used] || !index || index > of || of > SHARDS_MAX)
		return err_set(e, EINVAL,
			"--shard takes I/N (part I of N parts, N at most %d), "
			"not '%s'; try 1/4",
			SHARDS_MAX, text);
	*s = (struct shard){ index - 1, of };
	return 0;
}

bool shard_has(const struct shard *s, size_t item)
{
	return !s->of || item % s->of == s->index;
}

size_t shard_count(const struct shard *s, size_t n)
{
	if (!s->of)
		return n;
	return n / s->of + (n % s->of > s->index);
}

/* ---- the command line ---------------------------------------------------- */

/* Options that may differ between the shards of a measurement; valued: whether
 * the option takes a value. */
static const struct {
	const char *name;
	bool valued;
} own[] = { { "--shard", true }, { "--outputs", true }, { "--json", false } };

/* Return the number of words at argv that form one of the options in own[]; 0
 * if argv[0] is not one of these options. */
static int own_words(int left, char *const *argv)
{
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		size_t len = strlen(own[i].name);

		if (strncmp(argv[0], own[i].name, len))
			continue;
		if (argv[0][len] == '=' && own[i].valued)
			return 1;
		if (!argv[0][len])
			return own[i].valued && left > 1 ? 2 : 1;
	}
	return 0;
}

json_t *shard_arguments(int argc, char *const *argv)
{
	json_t *words = json_array();

	for (int i = 0; i < argc;) {
		int skip = own_words(argc - i, argv + i);

		if (!skip &&
			json_array_append_new(words,
				json_stringn_nocheck(
					argv[i], strlen(argv[i])))) {
			json_decref(words);
			return NULL;
		}
		i += skip ? skip : 1;
	}
	return words;
}

json_t *shard_json(const struct shard *s, json_t *arguments)
{
	return json_pack("{s:i, s:i, s:s, s:O}", "index", (int)s->index + 1,
		"of", (int)s->of, "program", TANDEM_VERSION, "arguments",
		arguments);
}

char **shards_arguments(const struct shards *all, unsigned *n)
{
	const json_t *shard = json_object_get(all->one[0], "shard");
	const json_t *words = json_object_get(shard, "arguments");
	char **argv;

	*n = (unsigned)json_array_size(words);
	argv = calloc(*n + 1, sizeof(*argv));
	for (unsigned i = 0; argv && i < *n; i++)
		argv[i] = (char *)(uintptr_t)json_string_value(
			json_array_get(words, i));
	return argv;
}

/* ---- reading ------------------------------------------------------------- */

static json_t *load(const char *path, struct err *e)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	json_error_t error;
	json_t *one;

	if (!f) {
		err_sys(e, errno, "cannot open '%s'", path);
		return NULL;
	}
	/* When Jansson runs out of memory, it sometimes reports invalid JSON
	 * instead, but errno is ENOMEM. */
	errno = 0;
	one = json_loadf(f, JSON_REJECT_DUPLICATES, &error);
	if (!one && errno == ENOMEM)
		err_set(e, ENOMEM, "no memory for '%s'", path);
	else if (!one && ferror(f))
		err_sys(e, errno ? errno : EIO, "cannot read '%s'", path);
	else if (!one)
		err_set(e, EINVAL,
			"'%s', line %d: %s; a shard is one JSON object", path,
			error.line, error.text);
	if (f != stdin)
		fclose(f);
	return one;
}

/* Read the file of a shard and add it to *all. Returns 0, or a negative errno,
 * for example -EINVAL if the file is not a valid, complete shard. */
static int read_one(struct shards *all, const char *path, struct err *e)
{
	json_t *one = load(path, e);
	const json_t *shard = json_object_get(one, "shard"),
		     *words = json_object_get(shard, "arguments");
	json_int_t index = json_integer_value(json_object_get(shard, "index")),
		   of = json_integer_value(json_object_get(shard, "of"));
	bool damaged = index < 1 || of < index || of > SHARDS_MAX ||
		!json_array_size(words);
	const char *why = NULL;
	int ret = one ? 0 : e->code;

	for (size_t i = 0; i < json_array_size(words); i++)
		damaged |= !json_is_string(json_array_get(words, i));
	if (!shard)
		why = "is not a shard; give files that commands with --shard "
		      "have written";
	else if (damaged)
		why = "is a damaged shard; run its command again";
	else if (json_is_false(json_object_get(one, "complete")))
		why = "is a shard that was interrupted or failed; run its "
		      "command again";
	if (!ret && why)
		ret = err_set(e, EINVAL, "'%s' %s", path, why);
	if (!ret && !all->n) {
		all->one = calloc((size_t)of, sizeof(*all->one));
		all->path = calloc((size_t)of, sizeof(*all->path));
		all->n = (unsigned)of;
	}
	if (!ret && (!all->one || !all->path))
		ret = err_set(e, ENOMEM, "no memory for shards");
	if (!ret && of != all->n)
		ret = err_set(e, EINVAL,
			"'%s' is one of %lld shards, but the first file is one "
			"of %u; give shards of a single measurement",
			path, (long long)of, all->n);
	if (!ret && all->one[index - 1])
		ret = err_set(e, EINVAL,
			"'%s' and '%s' are both shard %lld of %lld; give each "
			"shard once",
			all->path[index - 1], path, (long long)index,
			(long long)of);
	if (ret) {
		json_decref(one);
		return ret;
	}
	all->one[index - 1] = one;
	all->path[index - 1] = path;
	return 0;
}

static int differ(
	const struct shards *all, unsigned i, const char *what, struct err *e)
{
	return err_set(e, EINVAL,
		"'%s' and '%s' are shards of different measurements: their %s "
		"differ",
		all->path[0], all->path[i], what);
}

int shards_read(
	struct shards *all, char *const *paths, unsigned n, struct err *e)
{
	const json_t *version, *first;
	int ret = 0;

	for (unsigned i = 0; i < n && !ret; i++)
		ret = read_one(all, paths[i], e);
	for (unsigned i = 0; i < all->n && !ret; i++)
		if (!all->one[i])
			ret = err_set(e, EINVAL,
				"shard %u of %u is missing; give the files of "
				"all shards",
				i + 1, all->n);
	if (ret)
		return ret;
	first = json_object_get(all->one[0], "shard");
	for (unsigned i = 1; i < all->n; i++) {
		const json_t *here = json_object_get(all->one[i], "shard");

		if (!json_equal(json_object_get(first, "arguments"),
			    json_object_get(here, "arguments")))
			return differ(all, i, "command lines", e);
		if (!json_equal(json_object_get(first, "program"),
			    json_object_get(here, "program")))
			return differ(all, i, "programs' versions", e);
	}
	return shards_common(all, "version", &version, e);
}

void shards_release(struct shards *all)
{
	for (unsigned i = 0; all->one && i < all->n; i++)
		json_decref(all->one[i]);
	free(all->one);
	free(all->path);
	*all = (struct shards){ 0 };
}

int shards_common(const struct shards *all, const char *member,
	const json_t **out, struct err *e)
{
	*out = json_object_get(all->one[0], member);
	for (unsigned i = 1; i < all->n; i++) {
		const json_t *here = json_object_get(all->one[i], member);

		if (here != *out && !json_equal(*out, here)) {
			char what[64];

			snprintf(what, sizeof(what), "members '%s'", member);
			return differ(all, i, what, e);
		}
	}
	return 0;
}
