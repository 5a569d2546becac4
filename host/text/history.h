/*
 * A history: earlier prompts and answers as token ids, in a file that several
 * processes may append to and read at the same time (docs/history.md; the
 * format is in history_format.h; "History database" of sd.npu, section 3.1).
 * Drafters use it, but it does not depend on them.
 *
 * A record is either complete or absent. It is appended by one write under a
 * lock on the file, and has a checksum. An incomplete record at the end, left
 * by a writer that was killed, is ignored: its bytes are counted, and the next
 * append overwrites them. Damage elsewhere costs only the affected records.
 * Shortening a history (by max_bytes or history_prune) writes a new file and
 * renames it into place under the lock. Readers take no lock. They see the
 * records that were complete at the last history_refresh, even after the file
 * was replaced.
 *
 * A file is refused if it has another vocabulary, if other users may read it,
 * or if it is not a regular file. A handle may be used by one thread at a time;
 * several handles of one file are possible, even in one process.
 */
#ifndef HOST_TEXT_HISTORY_H
#define HOST_TEXT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct gguf;
struct history;

/* Most tokens of a record. */
#define HISTORY_TOKENS_MAX  (1u << 26)

#define HISTORY_MAX_DEFAULT ((uint64_t)64 << 20)

/* Hash of a model file's list of tokens. Two files whose ids stand for the same
 * texts have equal hashes. 0 for a file without a vocabulary. */
uint64_t vocabulary_hash(const struct gguf *);

struct history_opts {
	/* Vocabulary of the ids. n_vocab 0 accepts any vocabulary; it is then
	 * read from the file, which must exist. */
	uint64_t vocabulary;
	uint32_t n_vocab;
	uint64_t max_bytes; /* largest size of the file when appending */
	/* True to open for writing. A history that was opened read-only may
	 * disappear while it is open. */
	bool write;
};

/*
 * Open a history. When opened for writing, the file is created if it does not
 * exist. Returns 0, -ENOENT if there is no file, -EINVAL if it is not a history
 * or has another vocabulary, -EPERM if other users may read it, or another
 * negative errno. The path is copied.
 */
int history_open(struct history **out, const char *path,
	const struct history_opts *, struct err *);
void history_close(struct history *);

struct history_record {
	uint64_t number; /* from 1 up, unique; 0 if not assigned yet */
	int64_t time;    /* seconds since 1970 */
	/* [n] the prompt's ids, then the answer's; each is below n_vocab. If
	 * the answer has an end-of-text token, this is the last id. */
	const int32_t *id;
	uint32_t n_prompt, n;
};

/*
 * Read the changes of other processes: records appended or pruned, or the file
 * removed (then no record is left). All records returned before become invalid.
 * Only this function and the writing functions change the records that a handle
 * returns.
 */
int history_refresh(struct history *, struct err *);

/* Records, oldest first. Their ids point into the mapped file. */
size_t history_count(const struct history *);
struct history_record history_at(const struct history *, size_t i);

/*
 * Index of the first record with a number larger than `number`, or
 * history_count if there is none. The records from this index on are new since
 * the record with this number was read, regardless of pruning; number 0 selects
 * all records. If all numbers in the file are smaller than `number`, the file
 * was recreated and all of its records are new: the index is 0.
 */
size_t history_after(const struct history *, uint64_t number);

uint32_t history_n_vocab(const struct history *);

/*
 * Append n records (their numbers are ignored) and sync the file. If the file
 * would exceed max_bytes, the oldest records are removed, and some more to make
 * room for the next appends. The handle must be open for writing.
 *
 * Returns 0, -EFBIG if the records alone exceed the limit, -EINVAL for an id
 * outside the vocabulary or an empty record, -EBUSY if another writer holds the
 * lock for seconds, or another negative errno. On failure no record is
 * appended, except that the first few may be if the disk became full or failed
 * while many were written.
 */
int history_append(struct history *, const struct history_record *, size_t n,
	struct err *);

/* Bounds of the records to keep; HISTORY_ALL keeps everything. */
struct history_bound {
	/* records: number of newest records; bytes: size of the file */
	uint64_t records, bytes;
	int64_t since; /* keep no records older than this time */
};
#define HISTORY_ALL                               \
	{                                         \
		UINT64_MAX, UINT64_MAX, INT64_MIN \
	}

/* Keep the records within all of these bounds, and remove the others and
 * damaged bytes. *dropped is set to the number of removed records; `dropped`
 * may be NULL. Returns 0 or a negative errno. */
int history_prune(struct history *, const struct history_bound *,
	uint64_t *dropped, struct err *);

struct history_stats {
	uint64_t records, prompt_tokens, answer_tokens;
	uint64_t file_bytes;
	/* bytes between records, left by records that were lost */
	uint64_t damaged_bytes;
	/* Bytes after the last record: an incomplete append, which may still be
	 * running. */
	uint64_t tail_bytes;
	uint64_t vocabulary;
	uint32_t n_vocab;
	uint64_t first, last;   /* record numbers; 0 if there are no records */
	int64_t oldest, newest; /* times; 0 if there are no records */
};
void history_stats(const struct history *, struct history_stats *out);

#endif
