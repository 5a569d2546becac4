#include "host/text/history_impl.h"

#include "base/err.h"
#include "base/fd.h"
#include "tensor/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

uint64_t vocabulary_hash(const struct gguf *g)
{
	const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");

	return tokens ? XXH64(tokens->value, tokens->bytes, 0) : 0;
}

/* ---- the file ------------------------------------------------------------ */

static void unmap(struct history *h)
{
	if (h->map)
		munmap((void *)(uintptr_t)h->map, h->mapped);
	h->map = NULL;
	h->mapped = 0;
}

static void forget(struct history *h)
{
	unmap(h);
	h->n = 0;
	h->size = h->end = h->damaged = h->last = 0;
	h->head = (struct history_head){ 0 };
}

/* Close the file and forget all records that were read from it. */
static void history_detach(struct history *h)
{
	forget(h);
	/* Unlock explicitly: if a forked child has inherited the file
	 * descriptor, closing the file does not release the lock. */
	if (h->fd >= 0)
		flock(h->fd, LOCK_UN);
	fd_close(&h->fd);
}

bool history_is_current(const struct history *h)
{
	struct stat st;

	return h->fd >= 0 && !stat(h->path, &st) && st.st_dev == h->dev &&
		st.st_ino == h->ino;
}

int history_attach(struct history *h, bool create, struct err *e)
{
	if (history_is_current(h))
		return 0;
	history_detach(h);

	/* O_NONBLOCK prevents open() from blocking on a FIFO. A FIFO is refused
	 * below. */
	int flags = (h->opts.write ? O_RDWR : O_RDONLY) |
		(create ? O_CREAT : 0) | O_CLOEXEC | O_NONBLOCK;
	struct stat st;
	int ret = 0;

	h->fd = open(h->path, flags, 0600);
	if (h->fd < 0 && errno == ENOENT && !create)
		return 0;
	if (h->fd < 0)
		return err_sys(
			e, errno, "cannot open the history '%s'", h->path);
	if (fstat(h->fd, &st))
		ret = err_sys(e, errno, "cannot look at '%s'", h->path);
	else if (!S_ISREG(st.st_mode))
		ret = err_set(e, EINVAL, "'%s' is not a regular file", h->path);
	else if (st.st_mode & 077)
		ret = err_set(e, EPERM,
			"others can read or write '%s' (mode %04o), which "
			"holds prompts and answers; try: chmod 600 '%s'",
			h->path, st.st_mode & 07777, h->path);
	if (ret)
		fd_close(&h->fd);
	h->dev = st.st_dev;
	h->ino = st.st_ino;
	return ret;
}

int history_load(struct history *h, struct err *e)
{
	struct stat st;
	int ret;

	if (h->fd < 0)
		return 0;
	if (fstat(h->fd, &st))
		return err_sys(e, errno, "cannot look at '%s'", h->path);
	/* If complete records are missing at the end, another program has
	 * truncated the file, because writers never remove complete records
	 * from a file. Drop all records. */
	if ((uint64_t)st.st_size < h->end)
		forget(h);
	h->size = (uint64_t)st.st_size;
	ret = history_scan(h, e);
	if (!ret && h->mapped != h->end) {
		void *p;

		unmap(h);
		p = mmap(NULL, h->end, PROT_READ, MAP_SHARED, h->fd, 0);
		if (p == MAP_FAILED) {
			ret = err_sys(e, errno, "cannot map '%s'", h->path);
		} else {
			h->map = p;
			h->mapped = h->end;
		}
	}
	if (ret)
		history_detach(h);
	return ret;
}

int history_refresh(struct history *h, struct err *e)
{
	int ret = history_attach(h, false, e);

	return ret ? ret : history_load(h, e);
}

/* ---- opening and closing ------------------------------------------------- */

int history_open(struct history **out, const char *path,
	const struct history_opts *o, struct err *e)
{
	struct history *h = calloc(1, sizeof(*h));
	int ret;

	if (!h)
		return err_set(e, ENOMEM, "no memory for a history");
	h->opts = *o;
	h->fd = -1;
	h->path = strdup(path);
	h->window = malloc(HISTORY_WINDOW);
	h->hash = XXH64_createState();
	if (!h->path || !h->window || !h->hash)
		ret = err_set(e, ENOMEM, "no memory for a history");
	/* Append 0 records, which creates the file or reports why it cannot be
	 * created. */
	else if (o->write && o->n_vocab)
		ret = history_append(h, NULL, 0, e);
	else
		ret = history_refresh(h, e);
	if (!ret && h->fd < 0)
		ret = err_sys(e, ENOENT, "cannot open the history '%s'", path);
	if (ret)
		history_close(h);
	else
		*out = h;
	return ret;
}

void history_close(struct history *h)
{
	if (!h)
		return;
	history_detach(h);
	XXH64_freeState(h->hash);
	free(h->window);
	free(h->at);
	free(h->path);
	free(h);
}

/* ---- records ------------------------------------------------------------- */

uint32_t history_n_vocab(const struct history *h)
{
	return h->end ? h->head.n_vocab : h->opts.n_vocab;
}

size_t history_count(const struct history *h)
{
	return h->n;
}

struct history_record history_at(const struct history *h, size_t i)
{
	const unsigned char *p = h->map + h->at[i];
	struct history_entry r;

	memcpy(&r, p, sizeof(r));
	return (struct history_record){ .number = r.number,
		.time = r.time,
		.id = (const int32_t *)(const void *)(p + sizeof(r)),
		.n_prompt = r.n_prompt,
		.n = r.n_prompt + r.n_answer };
}

size_t history_after(const struct history *h, uint64_t number)
{
	size_t from = 0, to = number <= h->last ? h->n : 0;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (history_at(h, middle).number <= number)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

void history_stats(const struct history *h, struct history_stats *out)
{
	*out = (struct history_stats){ .records = h->n,
		.file_bytes = h->size,
		.damaged_bytes = h->damaged,
		.tail_bytes = h->size - h->end,
		.vocabulary = h->end ? h->head.vocabulary : h->opts.vocabulary,
		.n_vocab = history_n_vocab(h) };
	for (size_t i = 0; i < h->n; i++) {
		struct history_record r = history_at(h, i);

		out->prompt_tokens += r.n_prompt;
		out->answer_tokens += r.n - r.n_prompt;
		out->first = i ? out->first : r.number;
		out->last = r.number;
		if (!i || r.time < out->oldest)
			out->oldest = r.time;
		if (!i || r.time > out->newest)
			out->newest = r.time;
	}
}
