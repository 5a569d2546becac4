#include "shm/ring_cache.h"

#include <errno.h>
#include <stdio.h>

static uint64_t offset_in(const struct ring_cache *c, const void *at)
{
	return (uint64_t)((const uint8_t *)at - c->memory);
}

static const void *read_cached(struct ring_cache *c, const void *at, size_t n)
{
	return coherence_read(c->lines, c->buffer, offset_in(c, at), n);
}

static void *write_cached(struct ring_cache *c, void *at, size_t n)
{
	return coherence_write(c->lines, c->buffer, offset_in(c, at), n);
}

/*
 * Each call passes a new bracket number (the number of an access of the host's
 * CPU), as if the host had written the bytes since the previous call. A device
 * cannot know in advance whether a poll finds a new index. If the number did
 * not change, the checker would report an invalidation as needless whenever the
 * poll after it finds no new index.
 */
static void invalidate(
	struct ring_cache *c, const void *at, size_t n, enum ring_writer by)
{
	uint64_t offset = offset_in(c, at);
	uint32_t bracket = ++c->invalidations;

	if (c->two_levels) {
		coherence_host_wrote(
			c->lines, c->buffer, offset, n, bracket, by);
		coherence_flush_all(c->lines);
	} else {
		coherence_invalidate(
			c->lines, c->buffer, offset, n, bracket, by);
	}
}

static void clean(struct ring_cache *c, const void *at, size_t n)
{
	if (c->two_levels)
		coherence_clean_all(c->lines);
	else
		coherence_clean(c->lines, c->buffer, offset_in(c, at), n);
}

static void begin(struct ring_cache *c)
{
	coherence_begin(c->lines, c->request);
	coherence_operator(c->lines, "ring", -1);
}

static void end(struct ring_cache *c)
{
	const char *first;
	uint32_t n = coherence_end(c->lines, &first);

	if (n && !c->reports)
		snprintf(c->first_report, sizeof(c->first_report), "%s", first);
	c->reports += n;
}

static void close_cache(struct ring_cache *c)
{
	coherence_close(c->lines);
}

static void read_name(void *arg, unsigned by, char out[COHERENCE_NAME_BYTES])
{
	snprintf(out, COHERENCE_NAME_BYTES, "%s",
		by == RING_PUBLISH           ? "ring_publish"
			: by == RING_RELEASE ? "ring_release"
					     : "");
}

int ring_cache_open(struct ring_cache *c, const struct coherence_config *config,
	const char *name, void *memory, size_t bytes)
{
	struct coherence_config own = *config;
	int ret;

	*c = (struct ring_cache){
		.read = read_cached,
		.write = write_cached,
		.invalidate = invalidate,
		.clean = clean,
		.begin = begin,
		.end = end,
		.hooks = { .read_name = read_name,
			.leaves_out = config->hooks->leaves_out,
			.arg = config->hooks->arg },
		.memory = memory,
		.two_levels = config->contract == COHERENCE_TWO_LEVELS,
	};
	own.hooks = &c->hooks;
	ret = coherence_open(&c->lines, &own);
	if (ret)
		return ret;
	c->buffer = coherence_register(c->lines, name, memory, bytes, 0, 0);
	if (!c->buffer) {
		coherence_close(c->lines);
		return -ENOMEM;
	}
	c->close = close_cache;
	return 0;
}
