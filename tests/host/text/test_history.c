/* A history that a single process writes and reads. */
#include "tests/host/text/history_file.h"

#include "base/fd.h"
#include "base/rng.h"
#include "tensor/gguf.h"
#include "tests/host/text/vocab_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define HEAD 64 /* bytes of a file without records */

static size_t bytes_of(uint32_t k)
{
	int32_t id[HISTORY_LENGTH];

	return (40 + 4 * (size_t)history_made(0, k, id).n + 7) / 8 * 8;
}

static struct history *with(uint32_t n)
{
	struct history *h;

	history_fresh();
	h = history_opened(1 << 20);
	for (uint32_t k = 0; k < n; k++)
		history_add(h, 0, k);
	return h;
}

static int files_in(const char *folder)
{
	DIR *d = opendir(folder);
	int n = -2;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* ---- records ------------------------------------------------------------- */

static void test_round_trip(void **state)
{
	struct history *h = with(0), *r = history_reader();
	struct history_stats s;
	struct err e = { 0 };

	history_holds(h, 0, 0);
	history_holds(r, 0, 0);
	assert_int_equal(history_bytes(), HEAD);
	for (uint32_t k = 0; k < 50; k++)
		history_add(h, 0, k);
	history_holds(h, 0, 50);
	/* A reader sees changes only after a refresh. */
	history_holds(r, 0, 0);
	assert_ok(history_refresh(r, &e), &e);
	history_holds(r, 0, 50);
	history_close(r);
	history_close(h);
	h = history_opened(1 << 20);
	history_holds(h, 0, 50);
	history_stats(h, &s);
	assert_int_equal(s.records, 50);
	assert_int_equal(s.first, 1);
	assert_int_equal(s.last, 50);
	assert_int_equal(s.oldest, 1000);
	assert_int_equal(s.newest, 1049);
	assert_int_equal(s.damaged_bytes, 0);
	assert_int_equal(s.tail_bytes, 0);
	assert_int_equal(s.file_bytes, history_bytes());
	history_close(h);
}

static void test_many_at_once(void **state)
{
	int32_t id[40][HISTORY_LENGTH];
	struct history_record r[40];
	struct history *h = with(2);
	struct err e = { 0 };

	for (uint32_t k = 0; k < 40; k++)
		r[k] = history_made(0, k + 2, id[k]);
	assert_ok(history_append(h, r, 40, &e), &e);
	history_holds(h, 0, 42);
	assert_ok(history_append(h, r, 0, &e), &e);
	history_holds(h, 0, 42);
	history_close(h);
}

/* After small records, the history has a record that is larger than a single
 * read of the file. */
static void test_long_records(void **state)
{
	const uint32_t n = 300000;
	int32_t *id = malloc(n * sizeof(*id));
	struct history_record r = { .id = id, .n = n, .n_prompt = n - 1 };
	struct history *h;
	struct err e = { 0 };

	history_fresh();
	h = history_opened(64 << 20);
	for (uint32_t i = 0; i < n; i++)
		id[i] = (int32_t)(i * 7 % HISTORY_VOCAB);
	for (uint32_t k = 0; k < 5; k++) {
		history_add(h, 0, k);
		assert_ok(history_append(h, &r, 1, &e), &e);
	}
	history_close(h);
	h = history_reader();
	assert_int_equal(history_count(h), 10);
	for (size_t i = 1; i < 10; i += 2) {
		struct history_record got = history_at(h, i);

		assert_int_equal(got.n, n);
		assert_memory_equal(got.id, id, n * sizeof(*id));
	}
	history_close(h);
	free(id);
}

static void test_what_is_new(void **state)
{
	struct history *h = with(10), *r = history_reader();
	struct history_bound bound = HISTORY_ALL;
	uint64_t seen = history_at(r, 9).number, dropped;
	struct err e = { 0 };

	assert_int_equal(history_after(r, 0), 0);
	assert_int_equal(history_after(r, seen), 10);
	history_add(h, 0, 10);
	bound.records = 4;
	assert_ok(history_prune(h, &bound, &dropped, &e), &e);
	assert_int_equal(dropped, 7);
	history_add(h, 0, 11);
	history_holds(h, 7, 12);
	/* The reader's snapshot of the replaced file does not change. */
	history_holds(r, 0, 10);
	assert_ok(history_refresh(r, &e), &e);
	history_holds(r, 7, 12);
	assert_int_equal(history_after(r, seen), 3);
	assert_int_equal(history_at(r, 3).number, 11);
	/* Record numbers continue even after all records were removed. */
	bound.records = 0;
	assert_ok(history_prune(h, &bound, &dropped, &e), &e);
	assert_int_equal(dropped, 5);
	assert_int_equal(history_bytes(), HEAD);
	history_close(h);
	h = history_opened(1 << 20);
	history_add(h, 0, 12);
	assert_int_equal(history_at(h, 0).number, 13);
	history_close(h);
	history_close(r);
}

static void test_prune(void **state)
{
	struct history *h = with(20);
	struct history_bound bound = HISTORY_ALL;
	uint64_t dropped;
	struct err e = { 0 };
	struct stat before, after;

	stat(history_path, &before);
	assert_ok(history_prune(h, &bound, &dropped, &e), &e);
	assert_int_equal(dropped, 0);
	stat(history_path, &after);
	assert_int_equal(before.st_ino, after.st_ino);
	bound.since = 1005;
	assert_ok(history_prune(h, &bound, &dropped, &e), &e);
	assert_int_equal(dropped, 5);
	history_holds(h, 5, 20);
	bound.since = INT64_MIN;
	bound.bytes = HEAD + bytes_of(19) + bytes_of(18) + bytes_of(17);
	assert_ok(history_prune(h, &bound, NULL, &e), &e);
	history_holds(h, 17, 20);
	assert_int_equal(history_bytes(), bound.bytes);
	bound.bytes--;
	assert_ok(history_prune(h, &bound, NULL, &e), &e);
	history_holds(h, 18, 20);
	bound.bytes = 0;
	assert_ok(history_prune(h, &bound, NULL, &e), &e);
	history_holds(h, 20, 20);
	assert_int_equal(files_in(history_dir), 1);
	history_close(h);
}

/* If the records' times are not ascending, old records are removed wherever
 * they are in the file. */
static void test_prune_amid(void **state)
{
	static const uint32_t order[] = { 9, 0, 7, 1, 8, 2 };
	static const uint32_t left[] = { 9, 7, 8 };
	struct history_bound bound = HISTORY_ALL;
	struct history *h = with(0);
	struct err e = { 0 };
	uint32_t writer, k;

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		history_add(h, 0, order[i]);
	bound.since = 1005;
	assert_ok(history_prune(h, &bound, NULL, &e), &e);
	assert_int_equal(history_count(h), 3);
	for (size_t i = 0; i < 3; i++) {
		struct history_record r = history_at(h, i);

		history_check_made(&r, &writer, &k);
		assert_int_equal(k, left[i]);
		assert_int_equal(r.number, 2 * i + 1);
	}
	history_close(h);
}

static void test_bound(void **state)
{
	const uint64_t max = 10000;
	struct history *h;
	unsigned rewritten = 0;
	ino_t ino = 0;

	history_fresh();
	h = history_opened(max);
	for (uint32_t k = 0; k < 200; k++) {
		struct stat st;

		history_add(h, 0, k);
		assert_true((uint64_t)history_bytes() <= max);
		history_holds(h, k + 1 - (uint32_t)history_count(h), k + 1);
		stat(history_path, &st);
		rewritten += st.st_ino != ino;
		ino = st.st_ino;
	}
	/* After each rewrite 1250 bytes are free, and a record has 650 bytes on
	 * average. */
	assert_in_range(rewritten, 20, 150);
	assert_true(history_bytes() > 5000);
	assert_int_equal(files_in(history_dir), 1);
	history_close(h);
}

static void test_too_large(void **state)
{
	struct history *h = with(3);
	int32_t id[HISTORY_LENGTH];
	struct history_record r = history_made(0, 3, id);
	struct err e = { 0 };

	history_close(h);
	h = history_opened(HEAD + bytes_of(3));
	history_add(h, 0, 3); /* a record that just fits if it is alone */
	history_holds(h, 3, 4);
	history_close(h);
	h = history_opened(HEAD + bytes_of(3) - 1);
	assert_int_equal(history_append(h, &r, 1, &e), -EFBIG);
	assert_non_null(strstr(e.text, "--history-max"));
	history_holds(h, 3, 4);
	history_close(h);
}

static void test_refused_records(void **state)
{
	struct history *h = with(1);
	int32_t id[HISTORY_LENGTH];
	struct history_record r = history_made(0, 1, id);
	struct err e = { 0 };

	id[2] = (int32_t)HISTORY_VOCAB;
	assert_int_equal(history_append(h, &r, 1, &e), -EINVAL);
	assert_non_null(strstr(e.text, "token 1000003"));
	id[2] = -1;
	assert_int_equal(history_append(h, &r, 1, &e), -EINVAL);
	r.n = r.n_prompt = 0;
	assert_int_equal(history_append(h, &r, 1, &e), -EINVAL);
	r.n_prompt = 1;
	assert_int_equal(history_append(h, &r, 1, &e), -EINVAL);
	history_holds(h, 0, 1);
	history_close(h);
}

/* ---- damage -------------------------------------------------------------- */

/* A flipped bit in a record loses only that record. The record's bytes are
 * counted as damaged, and pruning removes them. */
static void test_damage(void **state)
{
	const uint64_t seed = harness_seed();
	const struct history_bound all = HISTORY_ALL;
	struct history *h = with(12);
	off_t starts[13] = { HEAD };
	uint32_t word[4];

	for (uint32_t k = 0; k < 12; k++)
		starts[k + 1] = starts[k] + (off_t)bytes_of(k);
	assert_int_equal(history_bytes(), starts[12]);
	history_close(h);
	for (unsigned turn = 0; turn < 500; turn++) {
		struct history_stats s;
		uint32_t hit = 0, writer, k;
		off_t at;

		rng_words(seed, 0, turn, word);
		at = HEAD + (off_t)(word[0] % (uint32_t)(starts[12] - HEAD));
		if (turn % 2) /* flip bits of headers more often */
			at = starts[word[0] % 12] + (off_t)(word[1] % 40);
		while (starts[hit + 1] <= at)
			hit++;
		harness_flip(history_path, (uint64_t)at);
		h = history_reader();
		history_stats(h, &s);
		assert_int_equal(history_count(h), 11);
		for (uint32_t i = 0; i < 11; i++) {
			struct history_record r = history_at(h, i);

			history_check_made(&r, &writer, &k);
			assert_int_equal(k, i + (i >= hit));
		}
		assert_int_equal(s.damaged_bytes, hit < 11 ? bytes_of(hit) : 0);
		assert_int_equal(s.tail_bytes, hit == 11 ? bytes_of(11) : 0);
		history_close(h);
		harness_flip(history_path, (uint64_t)at);
	}
	harness_flip(history_path, (uint64_t)starts[5] + 50);
	h = history_opened(1 << 20);
	assert_ok(history_prune(h, &all, NULL, NULL), NULL);
	assert_int_equal(history_count(h), 11);
	assert_int_equal(history_bytes(), starts[12] - (off_t)bytes_of(5));
	history_close(h);
}

/* If the file is truncated to any length, the complete records before the cut
 * can be read, and appending works. */
static void test_cut_off(void **state)
{
	struct history *h = with(4);
	off_t starts[5] = { HEAD };

	for (uint32_t k = 0; k < 4; k++)
		starts[k + 1] = starts[k] + (off_t)bytes_of(k);
	history_close(h);
	for (off_t len = starts[4]; len >= 0; len--) {
		struct history_stats s;
		uint32_t whole = 0;

		while (whole < 4 && starts[whole + 1] <= len)
			whole++;
		assert_int_equal(truncate(history_path, len), 0);
		h = history_reader();
		history_holds(h, 0, whole);
		history_stats(h, &s);
		assert_int_equal(
			s.tail_bytes, len < HEAD ? len : len - starts[whole]);
		history_close(h);
		h = history_opened(1 << 20);
		for (uint32_t k = whole; k < 4; k++)
			history_add(h, 0, k);
		history_holds(h, 0, 4);
		assert_int_equal(history_bytes(), starts[4]);
		history_close(h);
	}
}

/* An incomplete record at the end of the file is removed completely, even if it
 * is longer than the record that is then written in its place. */
static void test_long_tail(void **state)
{
	static const char junk[5000] = { 1, 2, 3 };
	struct history *h = with(3);
	struct history_stats s;
	off_t whole = history_bytes();
	int fd = open(history_path, O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_int_equal(fd_write_all(fd, junk, sizeof(junk)), 0);
	fd_close(&fd);
	assert_ok(history_refresh(h, NULL), NULL);
	history_stats(h, &s);
	assert_int_equal(s.tail_bytes, sizeof(junk));
	history_add(h, 0, 3);
	history_holds(h, 0, 4);
	history_stats(h, &s);
	assert_int_equal(s.tail_bytes, 0);
	assert_int_equal(history_bytes(), whole + (off_t)bytes_of(3));
	history_close(h);
}

/* A damaged end of the file that is mostly a hole is not read byte by byte. */
static void test_sparse_tail(void **state)
{
	const off_t hole = (off_t)256 << 30;
	struct history *h = with(3);
	struct history_stats s;
	off_t whole = history_bytes();

	assert_int_equal(truncate(history_path, whole + hole), 0);
	assert_ok(history_refresh(h, NULL), NULL);
	history_stats(h, &s);
	assert_int_equal(s.tail_bytes, hole);
	history_close(h);
	h = history_opened(1 << 20);
	history_add(h, 0, 3);
	history_holds(h, 0, 4);
	assert_int_equal(history_bytes(), whole + (off_t)bytes_of(3));
	history_close(h);
}

/* If the file is emptied or removed while a reader has it open, the reader gets
 * an empty history at the next refresh. */
static void test_removed(void **state)
{
	struct history *h = with(5), *r = history_reader();
	uint64_t seen = history_at(r, 4).number;
	struct err e = { 0 };

	assert_int_equal(unlink(history_path), 0);
	/* Pruning does not create the file again. */
	assert_int_equal(
		history_prune(h, &(struct history_bound)HISTORY_ALL, NULL, &e),
		-ENOENT);
	assert_non_null(strstr(e.text, "cannot open the history '"));
	assert_int_equal(files_in(history_dir), 0);
	history_holds(r, 0, 5);
	assert_ok(history_refresh(r, &e), &e);
	history_holds(r, 0, 0);
	assert_int_equal(history_after(r, seen), 0);
	history_add(h, 0, 7);
	history_holds(h, 7, 8);
	assert_ok(history_refresh(r, &e), &e);
	history_holds(r, 7, 8);
	/* In the new file, record numbers start again at the beginning, so the
	 * reader has seen none of its records. */
	assert_int_equal(history_after(r, seen), 0);
	assert_int_equal(history_after(r, history_at(r, 0).number), 1);
	assert_int_equal(truncate(history_path, 0), 0);
	assert_ok(history_refresh(r, &e), &e);
	history_holds(r, 0, 0);
	history_add(h, 0, 8);
	history_holds(h, 8, 9);
	assert_ok(history_refresh(r, &e), &e);
	history_holds(r, 8, 9);
	history_close(r);
	history_close(h);
}

/* ---- refusals ------------------------------------------------------------ */

/* Let this process write only the first n bytes of a file. */
static void limit_file(rlim_t n)
{
	struct rlimit r;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = n < r.rlim_max ? n : r.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

/* If a file cannot be written, the records that it has stay. */
static void test_unwritable(void **state)
{
	struct history_bound bound = HISTORY_ALL;
	struct history_opts o = history_of(1 << 20);
	struct history *h = NULL;
	struct err e = { 0 };

	history_fresh();
	limit_file(HEAD - 1);
	assert_int_equal(history_open(&h, history_path, &o, &e), -EFBIG);
	assert_null(h);
	assert_non_null(strstr(e.text, "cannot write the history '"));
	limit_file(RLIM_INFINITY);
	/* what was written of the head is no obstacle */
	h = history_opened(1 << 20);
	for (uint32_t k = 0; k < 5; k++)
		history_add(h, 0, k);
	limit_file(HEAD + bytes_of(4) - 1);
	bound.records = 1;
	assert_int_equal(history_prune(h, &bound, NULL, &e), -EFBIG);
	assert_non_null(strstr(e.text, "cannot write '"));
	assert_int_equal(files_in(history_dir), 1);
	history_holds(h, 0, 5);
	limit_file(HEAD + bytes_of(4));
	assert_ok(history_prune(h, &bound, NULL, &e), &e);
	history_holds(h, 4, 5);
	limit_file(RLIM_INFINITY);
	history_close(h);
}

static void refused(const struct history_opts *o, int code, const char *want)
{
	struct history *h = NULL;
	struct err e = { 0 };

	assert_int_equal(history_open(&h, history_path, o, &e), code);
	assert_null(h);
	if (!strstr(e.text, want))
		fail_msg("'%s' does not contain '%s'", e.text, want);
}

static void test_vocabulary(void **state)
{
	struct history *h = with(3);
	struct history_opts o = history_of(1 << 20);

	history_close(h);
	o.vocabulary++;
	refused(&o, -EINVAL, "a history of another vocabulary");
	o.write = false;
	refused(&o, -EINVAL, "use one file for each vocabulary");
	o = history_of(1 << 20);
	o.n_vocab--;
	refused(&o, -EINVAL, "another vocabulary");
	/* If the options name no vocabulary, the history opens with its own
	 * vocabulary. */
	o = (struct history_opts){ 0 };
	assert_ok(history_open(&h, history_path, &o, NULL), NULL);
	assert_int_equal(history_n_vocab(h), HISTORY_VOCAB);
	history_holds(h, 0, 3);
	history_close(h);
}

static void test_no_history(void **state)
{
	struct history *h = with(1);
	struct history_opts o = history_of(1 << 20);
	char text[4300];

	history_close(h);
	harness_flip(history_path, 20);
	refused(&o, -EINVAL, "the header of");
	harness_flip(history_path, 20);
	harness_flip(history_path, 8);
	refused(&o, -EINVAL, "format 17");
	harness_flip(history_path, 8);
	harness_flip(history_path, 3);
	refused(&o, -EINVAL, "is not a history");
	assert_int_equal(truncate(history_path, 30), 0);
	refused(&o, -EINVAL, "is not a history");
	assert_int_equal(unlink(history_path), 0);
	o.write = false;
	refused(&o, -ENOENT, "No such file");
	assert_int_equal(files_in(history_dir), 0);
	assert_int_equal(mkfifo(history_path, 0600), 0);
	refused(&o, -EINVAL, "not a regular file");
	o.write = true;
	refused(&o, -EINVAL, "not a regular file");
	snprintf(text, sizeof(text), "%s/none", history_path);
	snprintf(history_path, sizeof(history_path), "%.4100s", text);
	refused(&o, -ENOTDIR, "cannot open the history");
}

static void test_private(void **state)
{
	static const mode_t modes[] = { 0604, 0640, 0602, 0644, 0666 };
	struct history_bound none = { 0 };
	struct history_opts o = history_of(1 << 20);
	mode_t old = umask(0);
	struct history *h = with(3);
	struct stat st;

	assert_int_equal(stat(history_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_ok(history_prune(h, &none, NULL, NULL), NULL);
	assert_int_equal(stat(history_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	history_close(h);
	umask(old);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		assert_int_equal(chmod(history_path, modes[i]), 0);
		refused(&o, -EPERM, "chmod 600");
	}
}

/* Run as a user without write permission in the folder. */
static void test_read_only_folder(void **state)
{
	struct history_opts o = history_of(1 << 20);
	int status;
	pid_t child;

	history_fresh();
	assert_int_equal(chmod(history_dir, 0555), 0);
	child = fork();
	if (!child) {
		struct history *h = NULL;
		struct err e = { 0 };
		int ret;

		if (!geteuid() && setuid(65534))
			_exit(3);
		ret = history_open(&h, history_path, &o, &e);
		_exit(ret != -EACCES || !strstr(e.text, "Permission denied"));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(files_in(history_dir), 0);
	assert_int_equal(chmod(history_dir, 0755), 0);
}

static void test_through_a_link(void **state)
{
	struct history_bound bound = HISTORY_ALL;
	struct history *h = with(5);
	char target[4200], link[4300];
	struct stat st;

	history_close(h);
	snprintf(target, sizeof(target), "%s", history_path);
	snprintf(link, sizeof(link), "%s/link", harness_tmp());
	assert_int_equal(symlink(target, link), 0);
	snprintf(history_path, sizeof(history_path), "%.4000s", link);
	h = history_opened(1 << 20);
	bound.records = 2;
	assert_ok(history_prune(h, &bound, NULL, NULL), NULL);
	history_add(h, 0, 5);
	history_holds(h, 3, 6);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	history_close(h);
	snprintf(history_path, sizeof(history_path), "%s", target);
	h = history_opened(1 << 20);
	history_holds(h, 3, 6);
	history_close(h);
}

/* ---- the vocabulary's hash ----------------------------------------------- */

static uint64_t hash_of(const struct vocab *v)
{
	struct strbuf file = STRBUF_INIT;
	struct vocab_file f = { 0 };
	struct gguf *g;
	uint64_t hash;

	vocab_keys(&f, v);
	vocab_finish(&f, &file);
	assert_int_equal(gguf_parse(&g, file.data, file.len, NULL), 0);
	hash = vocabulary_hash(g);
	gguf_close(g);
	strbuf_release(&file);
	return hash;
}

static void test_vocabulary_hash(void **state)
{
	static struct vocab v;
	uint64_t plain, other;

	vocab_bpe(&v, "qwen2");
	plain = hash_of(&v);
	assert_int_equal(hash_of(&v), plain);
	/* Tokenizer settings that only change how text is split do not change
	 * the hash. */
	vocab_bpe(&v, "gpt-2");
	assert_int_equal(hash_of(&v), plain);
	v.text[260][0] ^= 1;
	other = hash_of(&v);
	assert_int_not_equal(other, plain);
	v.text[260][0] ^= 1;
	v.n--;
	assert_int_not_equal(hash_of(&v), plain);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_round_trip),
	cmocka_unit_test(test_many_at_once),
	cmocka_unit_test(test_long_records),
	cmocka_unit_test(test_what_is_new),
	cmocka_unit_test(test_prune),
	cmocka_unit_test(test_prune_amid),
	cmocka_unit_test(test_bound),
	cmocka_unit_test(test_too_large),
	cmocka_unit_test(test_refused_records),
	cmocka_unit_test(test_damage),
	cmocka_unit_test(test_cut_off),
	cmocka_unit_test(test_long_tail),
	cmocka_unit_test(test_sparse_tail),
	cmocka_unit_test(test_removed),
	cmocka_unit_test(test_unwritable),
	cmocka_unit_test(test_vocabulary),
	cmocka_unit_test(test_no_history),
	cmocka_unit_test(test_private),
	cmocka_unit_test(test_read_only_folder),
	cmocka_unit_test(test_through_a_link),
	cmocka_unit_test(test_vocabulary_hash),
};

TEST_FILE(tests)
