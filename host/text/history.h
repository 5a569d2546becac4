/*
 * A history: earlier prompts and answers as token ids, in a file that several
 * processes may append to and read at the same time. A record of the file has
 * one prompt and its answer (see docs/history.md; the format is in
 * history_format.h; "History database" in section 3.1 of the sd.npu paper).
 * Drafters use the history, but the history does not depend on drafters.
 *
 * A record is either complete or absent: a record has a checksum, and is
 * appended by one write under a lock on the file. A writer that is killed can
 * leave an incomplete record at the end of the file. Readers ignore an
 * incomplete record and count its bytes; the next append removes these bytes.
 * Damage elsewhere in the file destroys only the records that contain the
 * damage. A history is shortened (because of max_bytes, or by history_prune) by
 * writing a new file and renaming it to the old name under the lock. Readers
 * take no lock. Readers have the records that were complete at the latest
 * history_refresh, even after the file was replaced.
 *
 * A file is refused if its vocabulary is not the one that the caller gives, if
 * other users may read or write the file, or if it is not a regular file. A
 * handle (struct history) may be used by one thread at a time; several handles
 * of one file are possible, even in one process.
 */
#ifndef HOST_TEXT_HISTORY_H
#define HOST_TEXT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct gguf;
struct history;

/* Maximum number of tokens of a record. */
#define HISTORY_TOKENS_MAX  (1u << 26)

#define HISTORY_MAX_DEFAULT ((uint64_t)64 << 20)

/* Hash of the list of tokens in a model file. Two files have the same hash if
 * each id stands for the same text in both files. 0 for a file without a
 * vocabulary. */
uint64_t vocabulary_hash(const struct gguf *);

struct history_opts {
	/* The vocabulary to which the ids belong: its hash (vocabulary_hash)
	 * and number of tokens. With n_vocab == 0 any vocabulary is accepted;
	 * both values are then read from the file, which must exist. */
	uint64_t vocabulary;
	uint32_t n_vocab;
	uint64_t max_bytes; /* largest size of the file after an append */
	/* Whether the file is opened for writing. If not, the file may be
	 * removed while the history is open. */
	bool write;
};

/*
 * Open a history. If the history is opened for writing, a missing file is
 * created. Returns 0, -ENOENT if there is no file, -EINVAL if the file is not a
 * history or has another vocabulary, -EPERM if other users may read or write
 * the file, or another negative errno. The path is copied.
 */
int history_open(struct history **out, const char *path,
	const struct history_opts *, struct err *);
void history_close(struct history *);

struct history_record {
	/* number of the record: from 1 up, unique; 0 if not assigned yet */
	uint64_t number;
	int64_t time; /* seconds since 1970 */
	/* [n] the ids of the prompt, followed by those of the answer; each is
	 * below n_vocab. If the answer ended with an end-of-text token, this
	 * token is the last id. */
	const int32_t *id;
	uint32_t n_prompt, n;
};

/*
 * Read the changes made by other processes: appended and pruned records, and
 * the removal of the file (after which no record is left). Records that were
 * returned earlier become invalid. Only this function and the writing functions
 * change the records of a handle.
 */
int history_refresh(struct history *, struct err *);

/* The records, the oldest at index 0. The ids of a record point into the mapped
 * file. */
size_t history_count(const struct history *);
struct history_record history_at(const struct history *, size_t i);

/*
 * Find the records that are new to a reader that has last read the record with
 * number `number` (0: none). Returns the index of the first such record, or
 * history_count if there is none; all later records are new too. Pruning does
 * not affect the result. If all numbers in the file are smaller than `number`,
 * the file was recreated, and all records are new: the index is 0.
 */
size_t history_after(const struct history *, uint64_t number);

uint32_t history_n_vocab(const struct history *);

/*
 * Append n records (their numbers are ignored) and sync the file. If the file
 * would exceed max_bytes, the oldest records are removed, more than necessary,
 * to leave room for the next appends. The handle must be open for writing.
 *
 * Returns 0, -EFBIG if the n records alone exceed max_bytes, -EINVAL for an id
 * outside the vocabulary or an empty record, -EBUSY if another writer holds the
 * lock for 10 seconds, or another negative errno. On failure no record is
 * appended, with one exception: if the disk becomes full or fails while records
 * are written, some of the first records may have been appended.
 */
int history_append(struct history *, const struct history_record *, size_t n,
	struct err *);

/* Limits for the records to keep; HISTORY_ALL keeps all records. */
struct history_bound {
	/* records: maximum number of records to keep; bytes: maximum size of
	 * the file afterwards */
	uint64_t records, bytes;
	int64_t since; /* records older than this time are not kept */
};
#define HISTORY_ALL                               \
	{                                         \
		UINT64_MAX, UINT64_MAX, INT64_MIN \
	}

/* Keep the newest records that are within all of these limits. Remove all other
 * records, and damaged bytes. *dropped receives the number of removed records;
 * `dropped` may be NULL. Returns 0 or a negative errno. */
int history_prune(struct history *, const struct history_bound *,
	uint64_t *dropped, struct err *);

struct history_stats {
	uint64_t records, prompt_tokens, answer_tokens;
	uint64_t file_bytes;
	/* number of bytes that belong to no complete record and are followed by
	 * a complete record */
	uint64_t damaged_bytes;
	/* Number of bytes after the last record: an incomplete record, which
	 * another process may still be writing. */
	uint64_t tail_bytes;
	uint64_t vocabulary;
	uint32_t n_vocab;
	/* numbers of the first and last record; 0 if there are no records */
	uint64_t first, last;
	/* smallest and largest time of a record; 0 if there are no records */
	int64_t oldest, newest;
};
void history_stats(const struct history *, struct history_stats *out);

#endif
