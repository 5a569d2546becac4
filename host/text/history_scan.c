#include "host/text/history_impl.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/*
 * The scan reads the file with pread() and not through the mapping. Another
 * process may truncate an incomplete record at the end, and an access beyond
 * the end of a mapped file raises SIGBUS. Complete records are never truncated.
 */

/* Set *out to the bytes [at, at + len) of the file, len <= HISTORY_WINDOW, or
 * to NULL if the file ends before at + len. */
static int find_bytes(struct history *h, uint64_t at, size_t len,
	const unsigned char **out, struct err *e)
{
	size_t n = 0;

	*out = NULL;
	if (at < h->window_at || at + len > h->window_at + h->window_n) {
		/* Fill the window with the bytes from `at` on, up to the end of
		 * the file. */
		h->window_n = 0;
		h->window_at = at;
		while (n < HISTORY_WINDOW) {
			ssize_t got = pread(h->fd, h->window + n,
				HISTORY_WINDOW - n, (off_t)(at + n));

			if (got < 0 && errno == EINTR)
				continue;
			if (got < 0)
				return err_sys(
					e, errno, "cannot read '%s'", h->path);
			if (!got)
				break;
			n += (size_t)got;
		}
		h->window_n = n;
	}
	if (at + len <= h->window_at + h->window_n)
		*out = h->window + (at - h->window_at);
	return 0;
}

/* Set *right to true if the record's ids are in the vocabulary and its checksum
 * is correct, else to false. Returns 0 or a negative errno. */
static int check_ids(struct history *h, const struct history_entry *r,
	uint64_t at, bool *right, struct err *e)
{
	uint64_t n = (uint64_t)r->n_prompt + r->n_answer;
	uint64_t bytes = history_record_bytes(n), off = sizeof(*r);

	XXH64_reset(h->hash, 0);
	XXH64_update(h->hash, &r->number,
		sizeof(*r) - offsetof(struct history_entry, number));
	for (*right = true; off < bytes && *right;) {
		size_t len = bytes - off < HISTORY_WINDOW ? bytes - off
							  : HISTORY_WINDOW;
		uint64_t ids = n < len / 4 ? n : len / 4;
		const unsigned char *p;
		uint32_t id;
		int ret = find_bytes(h, at + off, len, &p, e);

		if (ret)
			return ret;
		*right = p;
		for (uint64_t i = 0; i < ids && *right; i++) {
			memcpy(&id, p + 4 * i, sizeof(id));
			*right = id < h->head.n_vocab;
		}
		if (*right)
			XXH64_update(h->hash, p, len);
		off += len;
		n -= ids;
	}
	*right = *right && XXH64_digest(h->hash) == r->checksum;
	return 0;
}

/* Set *bytes to the size of the complete record at offset `at`, or to 0 if
 * there is no complete record. Returns 0 or a negative errno. */
static int check_record(struct history *h, uint64_t at, struct history_entry *r,
	uint64_t *bytes, struct err *e)
{
	const unsigned char *p;
	uint64_t n;
	bool right;
	int ret = find_bytes(h, at, sizeof(*r), &p, e);

	*bytes = 0;
	if (ret || !p)
		return ret;
	memcpy(r, p, sizeof(*r));
	n = (uint64_t)r->n_prompt + r->n_answer;
	if (r->mark != HISTORY_MARK || !n || n > HISTORY_TOKENS_MAX)
		return 0;
	/* Record numbers must increase, because history_after uses a binary
	 * search. */
	if (r->number <= h->last || r->number > INT64_MAX)
		return 0;
	if (history_record_bytes(n) > h->size - at)
		return 0;
	ret = check_ids(h, r, at, &right, e);
	if (!ret && right)
		*bytes = history_record_bytes(n);
	return ret;
}

int history_reserve(struct history *h, size_t more, struct err *e)
{
	size_t cap = h->cap ? h->cap : 64;
	uint64_t *p;

	while (cap - h->n < more)
		cap *= 2;
	if (cap == h->cap)
		return 0;
	p = reallocarray(h->at, cap, sizeof(*p));
	if (!p)
		return err_set(e, ENOMEM, "no memory for the records of '%s'",
			h->path);
	h->at = p;
	h->cap = cap;
	return 0;
}

/*
 * Load the record at `at`, if there is one, and set *taken to its size;
 * otherwise set *taken to 0. The scan may have skipped bytes before `at`,
 * because they are damaged or because another process was still writing them
 * when they were read. In the second case these bytes are a complete record by
 * now, because the record at `at` was written after them and only one process
 * writes at a time; the earlier record is then loaded instead of the record at
 * `at`.
 */
static int load_record(
	struct history *h, uint64_t at, uint64_t *taken, struct err *e)
{
	struct history_entry r;
	int ret = check_record(h, at, &r, taken, e);

	if (!ret && *taken && at > h->end) {
		h->window_n = 0;
		ret = check_record(h, h->end, &r, taken, e);
		if (!ret && *taken)
			at = h->end;
		else if (!ret)
			ret = check_record(h, at, &r, taken, e);
	}
	if (!ret && *taken)
		ret = history_reserve(h, 1, e);
	if (ret || !*taken)
		return ret;
	h->damaged += at - h->end;
	h->at[h->n++] = at;
	h->last = r.number;
	h->end = at + *taken;
	return 0;
}

/* Whether the process that created the file was interrupted while it wrote the
 * head: the head is incomplete, or consists of zeros. A file without a complete
 * head has no records. */
static bool is_head_incomplete(const struct history *h, const unsigned char *p)
{
	for (size_t i = 0; i < h->size && i < sizeof(h->head.magic); i++)
		if (p[i] && p[i] != (unsigned char)HISTORY_MAGIC[i])
			return false;
	return h->size < sizeof(h->head) ||
		(h->size == sizeof(h->head) && !p[0]);
}

static int scan_head(struct history *h, struct err *e)
{
	const size_t least =
		h->size < sizeof(h->head) ? h->size : sizeof(h->head);
	const unsigned char *p;
	const struct history_head *k = &h->head;
	int ret = find_bytes(h, 0, least, &p, e);

	if (ret || !p || is_head_incomplete(h, p))
		return ret;
	memset(&h->head, 0, sizeof(h->head));
	memcpy(&h->head, p, least);
	if (memcmp(k->magic, HISTORY_MAGIC, sizeof(k->magic)))
		return err_set(e, EINVAL,
			"'%s' is not a history: it does not begin with a "
			"history's magic bytes",
			h->path);
	if (k->version != HISTORY_VERSION)
		return err_set(e, EINVAL,
			"'%s' is a history of format %u, but this program "
			"supports only format %d; list it as JSON with the "
			"version of tandem that wrote it, and import the "
			"list",
			h->path, k->version, HISTORY_VERSION);
	if (XXH64(k, offsetof(struct history_head, checksum), 0) !=
			k->checksum ||
		!k->n_vocab || !k->first || k->first > INT64_MAX)
		return err_set(e, EINVAL,
			"the header of '%s' is damaged; move the file away, "
			"then a new one is created",
			h->path);
	if (h->opts.n_vocab &&
		(k->vocabulary != h->opts.vocabulary ||
			k->n_vocab != h->opts.n_vocab))
		return err_set(e, EINVAL,
			"'%s' is a history of another vocabulary (hash "
			"%016llx, %u tokens; this model's: %016llx, %u "
			"tokens), in which the same token ids mean other "
			"words; use one file for each vocabulary",
			h->path, (unsigned long long)h->head.vocabulary,
			h->head.n_vocab, (unsigned long long)h->opts.vocabulary,
			h->opts.n_vocab);
	h->end = sizeof(h->head);
	h->last = h->head.first - 1;
	return 0;
}

/* Returns the next possible offset of a record, at or after `at`, that is not
 * in a hole of the file. Holes must be skipped without reading them, because a
 * sparse file can be far larger than the disk that holds it. */
static uint64_t after_hole(const struct history *h, uint64_t at)
{
	off_t data;

	if (at >= h->window_at &&
		at + sizeof(struct history_entry) <= h->window_at + h->window_n)
		return at;
	data = lseek(h->fd, (off_t)at, SEEK_DATA);
	if (data < 0)
		return errno == ENXIO ? h->size : at;
	return at + ((uint64_t)data - at) / 8 * 8;
}

int history_scan(struct history *h, struct err *e)
{
	uint64_t at, taken;
	int ret = 0;

	/* do not use the old window: the file may have changed */
	h->window_n = 0;
	if (!h->end)
		ret = scan_head(h, e);
	if (ret || !h->end)
		return ret;
	at = h->end;
	while (!ret && at + sizeof(struct history_entry) <= h->size) {
		ret = load_record(h, at, &taken, e);
		at = taken ? h->end : after_hole(h, at + 8);
	}
	return ret;
}
