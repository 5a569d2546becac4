/*
 * A history: earlier prompts and answers as token ids, in a file that several
 * processes may append to and read at the same time (docs/history.md, its
 * format in history_format.h; "History database" of sd.npu, section 3.1).
 * Drafters use it; it is independent of them.
 *
 * A record is either complete or absent. It is appended by one write under a
 * lock on the file, and has a checksum: what a killed writer left at the end is
 * no record; its bytes are counted, and the next append overwrites them. Damage
 * elsewhere costs the affected records. Shortening a history (by max_bytes or
 * history_prune) writes a new file and renames it into place under the same
 * lock. Readers take no lock: they see the records that were complete when they
 * looked, and keep seeing them even after the file was replaced.
 *
 * Refused are a file of another vocabulary, one that other users may read, and
 * other kinds of files. One thread per handle; several handles of one file are
 * possible, also in one process.
 */
#ifndef HOST_TEXT_HISTORY_H
#define HOST_TEXT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct gguf;
struct history;

/* Tokens of a record at most. */
#define HISTORY_TOKENS_MAX  (1u << 26)

#define HISTORY_MAX_DEFAULT ((uint64_t)64 << 20)

/* Equal if two model files give every id the same text; 0 for a file without
 * vocabulary. */
uint64_t vocabulary_hash(const struct gguf *);

struct history_opts {
	/* Vocabulary of the ids; n_vocab 0: any, as the file says, which must
	 * exist then. */
	uint64_t vocabulary;
	uint32_t n_vocab;
	uint64_t max_bytes; /* limit of the file when appending */
	bool write; /* else read-only, and the file may disappear later */
};

/*
 * Open a history; for writing, the file is created if needed. -ENOENT if there
 * is none otherwise, -EINVAL if it is not a history or has another vocabulary,
 * -EPERM if other users may read it. The path is copied.
 */
int history_open(struct history **out, const char *path,
	const struct history_opts *, struct err *);
void history_close(struct history *);

struct history_record {
	uint64_t number; /* from 1 on, unique; 0: not assigned yet */
	int64_t time;    /* seconds since 1970 */
	/* [n], the prompt's first; each below n_vocab. The end-of-text token of
	 * an answer, if any, is the last. */
	const int32_t *id;
	uint32_t n_prompt, n;
};

/*
 * Read changes that others have made: records appended or pruned, or the file
 * removed (then no record is left). Everything read before is invalid. Apart
 * from the writing functions, only this one changes what a handle sees.
 */
int history_refresh(struct history *, struct err *);

/* Records, oldest first. Their ids are in the mapped file. */
size_t history_count(const struct history *);
struct history_record history_at(const struct history *, size_t i);

/*
 * Index of the first record with a larger number; history_count if there is
 * none. Records from this index on are new since a record with `number` was
 * read, whatever was pruned meanwhile; 0 is before all. If all numbers are
 * smaller, the file was started again, and all of it is new.
 */
size_t history_after(const struct history *, uint64_t number);

uint32_t history_n_vocab(const struct history *);

/*
 * Append n records (their numbers are ignored) and sync. If the file would
 * exceed max_bytes, the oldest records are removed, and some more, so that the
 * next appends have room. On failure none is appended or, if the disk became
 * full or failed amid many, the first few: -EFBIG if the records alone exceed
 * the limit, -EINVAL for an id outside the vocabulary or an empty record,
 * -EBUSY if another writer holds the lock for seconds. The handle must be open
 * for writing.
 */
int history_append(struct history *, const struct history_record *, size_t n,
	struct err *);

/* Records to keep; HISTORY_ALL is everything. */
struct history_bound {
	/* records: the newest ones; bytes: of the file */
	uint64_t records, bytes;
	int64_t since; /* none older than this time */
};
#define HISTORY_ALL                               \
	{                                         \
		UINT64_MAX, UINT64_MAX, INT64_MIN \
	}

/* Keep the records within all of these bounds, and no damaged bytes. *dropped
 * (may be NULL) is the number of removed records. */
int history_prune(struct history *, const struct history_bound *,
	uint64_t *dropped, struct err *);

struct history_stats {
	uint64_t records, prompt_tokens, answer_tokens;
	uint64_t file_bytes;
	uint64_t damaged_bytes; /* between records: some were lost */
	/* After the last record: an incomplete append, perhaps still
	 * running. */
	uint64_t tail_bytes;
	uint64_t vocabulary;
	uint32_t n_vocab;
	uint64_t first, last;   /* numbers, 0 without records */
	int64_t oldest, newest; /* times, 0 without records */
};
void history_stats(const struct history *, struct history_stats *out);

#endif
