#include "tests/stress/rehearse.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "device/cache.h"
#include "device/fault.h"
#include "device/window.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORD      sizeof(uint32_t)
#define LINES_MAX 1024u
#define WINDOW    (1u << 20)

struct stage {
	struct strbuf *out;
	struct fault fault;
	struct window window;
	struct mapping *m; /* NULL before the first `begin` */
	struct cache *cache;
	uint32_t *cpu; /* the CPU's mapping of the buffer */
	size_t bytes;
	uint32_t words, request;
	int layer; /* incremented with each step, for reports */
};

/* Append the sentence of a report and its line with the missing call. */
static void say_report(void *arg, const char *text)
{
	struct strbuf *out = ((struct stage *)arg)->out;
	const char *missing = strstr(text, "missing: ");

	strbuf_addf(out, "! %.*s\n", (int)strcspn(text, "\n"), text);
	if (missing)
		strbuf_addf(
			out, "!! %.*s\n", (int)strcspn(missing, "\n"), missing);
}

/* ---- begin and end ------------------------------------------------------- */

static void close_stage(struct stage *s)
{
	struct wire_counters counters;
	char text[176];

	if (!s->m)
		return;
	if (s->cache) {
		cache_end(s->cache, &counters, text, sizeof(text));
		cache_detach(s->cache, s->m);
		cache_close(s->cache);
	}
	window_unmap(&s->window, s->m);
	munmap(s->cpu, s->bytes);
	window_release(&s->window);
	s->m = NULL;
	s->cache = NULL;
}

static int map_buffer(struct stage *s, struct err *e)
{
	struct wire_share share = { .bytes = s->bytes, .name = "rehearsed" };
	struct window_space space;
	int fd = memfd_create("rehearsed", MFD_CLOEXEC);
	int ret;

	if (fd < 0 || ftruncate(fd, (off_t)s->bytes)) {
		ret = err_sys(e, errno, "memfd");
		goto out;
	}
	s->cpu =
		mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s->cpu == MAP_FAILED) {
		ret = err_sys(e, errno, "mmap");
		goto out;
	}
	ret = window_map(&s->window, &share, fd, &s->m, &space, e);
	if (ret)
		munmap(s->cpu, s->bytes);
out:
	fd_close(&fd);
	return ret;
}

static int open_stage(struct stage *s, enum coherence level, uint64_t seed,
	uint32_t lines, const struct fault *fault, struct err *e)
{
	struct cache_config config = { .coherence = { .level = level,
					       .evict_seed = seed,
					       .report = say_report,
					       .arg = s,
					       .report_every = true },
		.fault = &s->fault };
	int ret = window_init(&s->window, WINDOW, 1, e);

	if (ret)
		return ret;
	s->fault = *fault;
	s->bytes = (size_t)lines * COHERENCE_LINE;
	s->words = (uint32_t)(s->bytes / WORD);
	ret = map_buffer(s, e);
	if (ret) {
		window_release(&s->window);
		return ret;
	}
	ret = cache_open(&s->cache, &config, &s->window, e);
	if (!ret)
		ret = cache_attach(s->cache, s->m, e);
	if (ret)
		return ret; /* close_stage frees the members that exist */
	s->layer = 0;
	cache_begin(s->cache, 1);
	return 0;
}

static int begin(struct stage *s, const char *level, const uint64_t *v,
	const struct fault *fault, struct err *e)
{
	unsigned l = 0;

	while (l < COHERENCE_COUNT && strcmp(level, coherence_names[l]))
		l++;
	if (l == COHERENCE_COUNT || !v[1] || v[1] > LINES_MAX)
		return err_set(e, EINVAL,
			"'begin' needs a coherence level, a seed and a "
			"number of cache lines from 1 to %u",
			LINES_MAX);
	close_stage(s);
	return open_stage(s, l, v[0], (uint32_t)v[1], fault, e);
}

/* ---- steps --------------------------------------------------------------- */

static void say_words(struct stage *s, const uint32_t *word, uint64_t n)
{
	strbuf_addf(s->out, "=");
	for (uint64_t i = 0; i < n; i++)
		strbuf_addf(s->out, " %" PRIx32, word[i]);
	strbuf_addf(s->out, "\n");
}

static void fill(uint32_t *word, uint64_t n, uint64_t value)
{
	for (uint64_t i = 0; i < n; i++)
		word[i] = (uint32_t)(value + i);
}

static int dma(struct stage *s, uint32_t addr, uint64_t n, struct err *e)
{
	size_t len = (size_t)n * WORD;
	uint32_t *tcm = malloc(len);

	if (!tcm)
		return err_set(e, ENOMEM, "no memory for %zu bytes", len);
	say_words(s, dma_read(s->cache, addr, len, tcm), n);
	free(tcm);
	return 0;
}

/* Run one step. `v` has the offset, the number of words, and one further
 * number. The caller has checked that the range lies in the buffer. */
static int step(
	struct stage *s, const char *what, const uint64_t *v, struct err *e)
{
	uint32_t addr = s->m->addr + (uint32_t)(v[0] * WORD);
	size_t len = (size_t)v[1] * WORD;

	if (!strcmp(what, "cpu")) {
		fill(s->cpu + v[0], v[1], v[2]);
		return 0;
	}
	if (!strcmp(what, "look")) {
		say_words(s, s->cpu + v[0], v[1]);
		return 0;
	}
	cache_operator(s->cache,
		what[0] == 'r'           ? "read"
			: what[0] == 'w' ? "write"
			: what[0] == 'd' ? "dma"
					 : "maintenance",
		s->layer++);
	if (!strcmp(what, "read"))
		say_words(s, view_read(s->cache, addr, len), v[1]);
	else if (!strcmp(what, "write"))
		fill(view_write(s->cache, addr, len), v[1], v[2]);
	else if (!strcmp(what, "invalidate"))
		cache_invalidate(s->cache, addr, len, (uint32_t)v[2], 0);
	else if (!strcmp(what, "clean"))
		cache_clean(s->cache, addr, len);
	else if (!strcmp(what, "dma"))
		return dma(s, addr, v[1], e);
	else
		return err_set(e, EINVAL, "there is no '%s'", what);
	return 0;
}

static void next_request(struct stage *s, uint32_t request)
{
	struct wire_counters counters;
	char text[176];

	cache_end(s->cache, &counters, text, sizeof(text));
	cache_begin(s->cache, request);
}

static int do_line(struct stage *s, const char *line, const struct fault *fault,
	struct err *e)
{
	char what[16], level[16];
	uint64_t v[3] = { 0 };

	if (sscanf(line, "begin %15s %" SCNu64 " %" SCNu64, level, &v[0],
		    &v[1]) == 3)
		return begin(s, level, v, fault, e);
	if (sscanf(line, "%15s %" SCNu64 " %" SCNu64 " %" SCNu64, what, &v[0],
		    &v[1], &v[2]) < 2 ||
		!s->m)
		return err_set(e, EINVAL,
			"the line is not a known step, or comes before "
			"'begin'");
	if (!strcmp(what, "request")) {
		next_request(s, (uint32_t)v[0]);
		return 0;
	}
	if (!v[1] || v[0] >= s->words || v[1] > s->words - v[0])
		return err_set(e, EINVAL, "outside of the buffer");
	return step(s, what, v, e);
}

/* ---- a text -------------------------------------------------------------- */

int rehearse(const char *text, const struct fault *fault, struct strbuf *answer,
	struct err *e)
{
	struct stage s = { .out = answer };
	char *copy = strdup(text), *rest = NULL;
	int ret = copy ? 0 : err_set(e, ENOMEM, "no memory for a text");

	for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL;
		line && !ret; line = strtok_r(NULL, "\n", &rest)) {
		ret = do_line(&s, line, fault, e);
		if (ret)
			err_in(e, "'%s'", line);
	}
	close_stage(&s);
	free(copy);
	return ret || !answer->failed
		? ret
		: err_set(e, ENOMEM, "no memory for an answer");
}
