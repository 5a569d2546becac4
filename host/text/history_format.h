/*
 * File format of a history, little endian: the head, then consecutive records,
 * each a multiple of 8 bytes long. Reserved and padding bytes are 0. Only
 * history*.c use this file.
 */
#ifndef HOST_TEXT_HISTORY_FORMAT_H
#define HOST_TEXT_HISTORY_FORMAT_H

#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	"histories are read in place: this program needs a little-endian "
	"machine");

#define HISTORY_MAGIC   "TANDEMH\n"
#define HISTORY_VERSION 1

struct history_head {
	char magic[8];
	uint32_t version;
	uint32_t n_vocab;
	uint64_t vocabulary; /* result of vocabulary_hash */
	/* smallest record number (history_entry.number) that a present or
	 * future record of the file can have */
	uint64_t first;
	uint64_t reserved[3];
	uint64_t checksum; /* XXH64 hash of the preceding bytes of the head */
};
_Static_assert(sizeof(struct history_head) == 64, "format");
_Static_assert(offsetof(struct history_head, vocabulary) == 16, "format");
_Static_assert(offsetof(struct history_head, checksum) == 56, "format");

/*
 * Start of a record. Both 32-bit halves of the mark have the highest bit set;
 * token ids never have this bit set. So the mark cannot occur within the ids of
 * a record. After damage, reading therefore resumes at the start of the next
 * record and never within a record.
 */
#define HISTORY_MARK 0xf8d7c6b5e4a39281ull

struct history_entry {
	uint64_t mark;
	/* XXH64 hash of the record's bytes after this member */
	uint64_t checksum;
	/* greater than the previous record's number; below 2^63 */
	uint64_t number;
	int64_t time; /* seconds since 1970 */
	uint32_t n_prompt, n_answer;
	/* followed by int32_t id[n_prompt + n_answer], then zeros up to a
	 * multiple of 8 bytes */
};
_Static_assert(sizeof(struct history_entry) == 40, "format");
_Static_assert(offsetof(struct history_entry, n_prompt) == 32, "format");

#endif
