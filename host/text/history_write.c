#include "host/text/history_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/newfile.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

/* Time in ns after which a writer stops waiting for the lock. A file of usual
 * size is written and synced in far less time, so the process that holds the
 * lock is probably suspended or hangs. */
#define LOCK_WAIT_NS 10000000000ull
#define LOCK_NAP_NS  100000

/* ---- the lock ------------------------------------------------------------ */

static void unlock(const struct history *h)
{
	if (h->fd >= 0)
		flock(h->fd, LOCK_UN);
}

/*
 * Lock the file at h->path and load its contents. Another writer may replace
 * the file between opening and locking; a lock on the old file would then
 * protect nothing. So check after locking that h->path still refers to the
 * locked file, and retry if it does not.
 */
static int lock(struct history *h, bool create, struct err *e)
{
	const struct timespec nap = { .tv_nsec = LOCK_NAP_NS };
	int ret;

	assert(h->opts.write);
	do {
		uint64_t until = clock_ns() + LOCK_WAIT_NS;

		ret = history_attach(h, create, e);
		if (!ret && h->fd < 0)
			ret = err_sys(e, ENOENT, "cannot open the history '%s'",
				h->path);
		while (!ret && flock(h->fd, LOCK_EX | LOCK_NB)) {
			if (errno != EWOULDBLOCK && errno != EINTR)
				ret = err_sys(e, errno,
					"cannot lock the history '%s'",
					h->path);
			else if (clock_ns() > until)
				ret = err_set(e, EBUSY,
					"another process has held the lock on "
					"'%s' for more than 10 seconds; find "
					"it with: lslocks",
					h->path);
			/* if the file was replaced, stop waiting for the lock
			 * of the old file */
			else if (!history_is_current(h))
				break;
			else
				nanosleep(&nap, NULL);
		}
	} while (!ret && !history_is_current(h));
	if (!ret)
		ret = history_load(h, e);
	if (ret)
		unlock(h);
	return ret;
}

/* ---- the head and records as bytes --------------------------------------- */

static struct history_head make_head(const struct history *h, uint64_t first)
{
	struct history_head k = { .magic = HISTORY_MAGIC,
		.version = HISTORY_VERSION,
		.n_vocab = history_n_vocab(h),
		.vocabulary = h->end ? h->head.vocabulary : h->opts.vocabulary,
		.first = first };

	k.checksum = XXH64(&k, offsetof(struct history_head, checksum), 0);
	return k;
}

/* Records in the file format. */
struct bytes {
	unsigned char *data; /* owned */
	size_t len;
};

static int put_records(struct bytes *out, const struct history *h,
	const struct history_record *r, size_t n, struct err *e)
{
	const size_t from = offsetof(struct history_entry, number);
	unsigned char *to = out->data = calloc(1, out->len);

	if (!to)
		return err_set(e, ENOMEM, "no memory for %zu records", n);
	for (size_t i = 0; i < n; i++) {
		struct history_entry *head = (void *)to;
		uint64_t bytes = history_record_bytes(r[i].n);

		*head = (struct history_entry){ .mark = HISTORY_MARK,
			.number = h->last + 1 + i,
			.time = r[i].time,
			.n_prompt = r[i].n_prompt,
			.n_answer = r[i].n - r[i].n_prompt };
		memcpy(to + sizeof(*head), r[i].id,
			(size_t)r[i].n * sizeof(*r[i].id));
		head->checksum = XXH64(to + from, bytes - from, 0);
		to += bytes;
	}
	return 0;
}

static int write_at(
	int fd, const unsigned char *data, size_t len, uint64_t offset)
{
	while (len) {
		ssize_t n = pwrite(fd, data, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* ---- appending ----------------------------------------------------------- */

static int check_records(const struct history *h,
	const struct history_record *r, size_t n, size_t *bytes, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (!r[i].n || r[i].n > HISTORY_TOKENS_MAX ||
			r[i].n_prompt > r[i].n)
			return err_set(e, EINVAL,
				"a record of %u tokens is empty, too long or "
				"shorter than its prompt",
				r[i].n);
		for (uint32_t k = 0; k < r[i].n; k++)
			if ((uint32_t)r[i].id[k] >= history_n_vocab(h))
				return err_set(e, EINVAL,
					"token %d is not in the vocabulary of "
					"the history '%s'",
					r[i].id[k], h->path);
		*bytes += history_record_bytes(r[i].n);
	}
	if (*bytes + sizeof(struct history_head) > h->opts.max_bytes)
		return err_set(e, EFBIG,
			"the new records take %llu bytes, but the history "
			"'%s' may have only %llu bytes; allow more with "
			"--history-max, or with --max of 'tandem history "
			"import'",
			(unsigned long long)*bytes, h->path,
			(unsigned long long)h->opts.max_bytes);
	return 0;
}

/* Remove an incomplete record from the end of the file. Complete records stay,
 * because other processes may read them. */
static void cut_tail(struct history *h)
{
	if (!history_load(h, NULL) && h->size > h->end &&
		!ftruncate(h->fd, (off_t)h->end))
		h->size = h->end;
}

static int append_here(struct history *h, const struct bytes *b, struct err *e)
{
	int ret;

	cut_tail(h);
	ret = write_at(h->fd, b->data, b->len, h->end);
	if (ret)
		cut_tail(h);
	else if (fdatasync(h->fd))
		ret = -errno;
	return ret ? err_sys(e, -ret, "cannot write the history '%s'", h->path)
		   : history_load(h, e);
}

/* ---- removing records ---------------------------------------------------- */

/* Write a new file with the records marked in keep[] and the records `more`,
 * and rename it to the name of the locked file. On success the lock is
 * released, because the handle then uses the new file. */
static int rewrite(struct history *h, const bool *keep,
	const struct bytes *more, struct err *e)
{
	struct newfile f = { .fd = -1 };
	struct history_head k;
	struct stat st;
	size_t first = 0;
	int ret = newfile_open(&f, h->path, NEWFILE_PRIVATE, e);

	if (ret)
		return ret;
	while (first < h->n && !keep[first])
		first++;
	k = make_head(
		h, first < h->n ? history_at(h, first).number : h->last + 1);
	/* If root prunes a user's file, the new file keeps the user as its
	 * owner. */
	if (!fstat(h->fd, &st) && st.st_uid != geteuid() &&
		fchown(f.fd, st.st_uid, st.st_gid))
		ret = -errno;
	if (!ret)
		ret = fd_write_all(f.fd, &k, sizeof(k));
	/* Write the kept records; one call writes all kept records that are
	 * adjacent in the file. */
	for (size_t i = 0; i < h->n && !ret; i++) {
		uint64_t from = h->at[i], to = from;

		for (; i < h->n && keep[i] && h->at[i] == to; i++)
			to += history_record_bytes(history_at(h, i).n);
		if (to > from) {
			ret = fd_write_all(f.fd, h->map + from, to - from);
			/* look at this record again: the next series of kept
			 * records may begin here */
			i--;
		}
	}
	if (!ret)
		ret = fd_write_all(f.fd, more->data, more->len);
	if (ret)
		err_sys(e, -ret, "cannot write '%s'", h->path);
	/* If the file was removed, do not create the file again. */
	else if (!history_is_current(h))
		ret = err_set(e, ESTALE,
			"'%s' was removed or replaced while it was rewritten",
			h->path);
	else
		ret = newfile_commit(&f, e);
	newfile_close(&f);
	return ret ? ret : history_refresh(h, e);
}

static int shorten(struct history *h, const struct history_bound *b,
	const struct bytes *more, uint64_t *dropped, struct err *e)
{
	bool *keep = calloc(h->n + 1, sizeof(*keep)), full = false;
	uint64_t bytes = sizeof(h->head), kept = 0;
	int ret = 0;

	if (!keep)
		return err_set(e, ENOMEM, "no memory for %zu records", h->n);
	/* Set keep[i] for the newest records that are within the limits. */
	*dropped = 0;
	for (size_t i = h->n; i--;) {
		const struct history_record r = history_at(h, i);
		uint64_t size = history_record_bytes(r.n);
		bool young = r.time >= b->since;

		full = full ||
			(young &&
				(kept == b->records || size > b->bytes ||
					bytes > b->bytes - size));
		keep[i] = young && !full;
		kept += keep[i];
		bytes += keep[i] ? size : 0;
		*dropped += !keep[i];
	}
	if (*dropped || h->damaged || h->size > h->end || more->len)
		ret = rewrite(h, keep, more, e);
	free(keep);
	return ret;
}

/* ---- appending and pruning ----------------------------------------------- */

int history_append(struct history *h, const struct history_record *r, size_t n,
	struct err *e)
{
	uint64_t room = h->opts.max_bytes - h->opts.max_bytes / 8, dropped;
	struct history_bound bound = HISTORY_ALL;
	struct bytes b = { 0 };
	int ret = lock(h, h->opts.n_vocab, e);

	if (ret)
		return ret;
	if (!h->end) { /* the file is new and has no head */
		const struct history_head k = make_head(h, 1);

		ret = write_at(h->fd, (const void *)&k, sizeof(k), 0);
		if (!ret && fsync(h->fd))
			ret = -errno;
		ret = ret ? err_sys(e, -ret, "cannot write the history '%s'",
				    h->path)
			  : history_load(h, e);
	}
	if (ret || !n)
		goto out;
	ret = check_records(h, r, n, &b.len, e);
	if (!ret)
		ret = put_records(&b, h, r, n, e);
	/* Reserve memory before writing, so that written records can always be
	 * loaded. */
	if (!ret)
		ret = history_reserve(h, n, e);
	/* When the file must be shortened, leave an eighth of max_bytes free;
	 * otherwise every append would rewrite the file. */
	bound.bytes = room > b.len ? room - b.len : 0;
	if (!ret)
		ret = b.len > h->opts.max_bytes - h->end ||
				h->end > h->opts.max_bytes
			? shorten(h, &bound, &b, &dropped, e)
			: append_here(h, &b, e);
	free(b.data);
out:
	unlock(h);
	return ret;
}

int history_prune(struct history *h, const struct history_bound *b,
	uint64_t *dropped, struct err *e)
{
	const struct bytes nothing = { 0 };
	uint64_t unused;
	int ret = lock(h, false, e);

	if (ret)
		return ret;
	ret = shorten(h, b, &nothing, dropped ? dropped : &unused, e);
	unlock(h);
	return ret;
}
