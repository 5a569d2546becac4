/*
 * Tests the text of stream_how, the description of how a stream reads: on the
 * system as it is, and on one that refuses io_uring or locked memory. Also
 * tests which block size stream_tune finds and saves.
 */
#include "tests/flash/stream_rig.h"

#include <dirent.h>
#include <linux/filter.h>
#include <liburing.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DIRECT ((struct stream_opts){ .block = BLOCK })
#define THREAD ((struct stream_opts){ .buffered = true, .threaded = true })

/* ---- how a stream reads ---- */

static void test_how(void **state)
{
	struct image *im = image_make(0);
	struct rig r;

	rig_open(&r, im, 1, THREAD, NULL);
	begin(&r, 0, 0);
	assert_string_equal(stream_how(r.s),
		"a thread, page cache, small pages; 64 KiB x 3");
	rig_close(&r);
	rig_open(&r, im, 1,
		(struct stream_opts){
			.block = 1 << 20, .depth = 2, .buffered = true },
		NULL);
	assert_non_null(strstr(stream_how(r.s), "page cache"));
	assert_non_null(strstr(stream_how(r.s), "; 1 MiB x 2"));
	rig_close(&r);
	rig_open(&r, im, 1, DIRECT, NULL);
	begin(&r, 0, 0);
	/* Each mechanism is in use or was refused with a reason. */
	assert_true(!strncmp(stream_how(r.s), "io_uring, ", 10) !=
		!!strstr(stream_how(r.s), "; no io_uring: "));
	assert_true(!!strstr(stream_how(r.s), ", O_DIRECT") !=
		!!strstr(stream_how(r.s), "; no O_DIRECT: "));
	rig_close(&r);
	image_close(im);
}

/* After this call io_uring_setup fails in this process. */
static void forbid_io_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { ARRAY_LEN(code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

/*
 * Read the largest extent in a process that cannot use some mechanism
 * (io_uring, or locked memory). Returns 0 or the number of the step that
 * failed. The text of stream_how is copied to how[size].
 */
static int read_refused(struct image *im, char *how, size_t size)
{
	struct stream_opts o = { .block = BLOCK, .depth = 2 };
	struct err e = { 0 };
	struct stream *s = NULL;
	struct buffer *b = NULL;
	const uint8_t *want = data_of(3);
	int step = 0;

	*how = '\0';
	if (buffer_create(&b, "x", ROOM, 0, &e) ||
		stream_open(&s, im, &o, &e) ||
		stream_add_slot(s, b, 0, ROOM, &e) ||
		stream_begin(s, 0, image_extent_at(im, 3), &e) ||
		stream_wait(s, 0, &e))
		step = 1;
	else if (memcmp(buffer_begin(b, 0, ROOM, BUFFER_READ), want, sizes[3]))
		step = 2;
	else
		snprintf(how, size, "%s", stream_how(s));
	stream_close(s);
	buffer_close(b);
	return step;
}

/*
 * Run `run` in a child process, and check that `run` returns 0. `run` returns
 * 77 if the mechanism cannot be refused on this system; the test is then
 * skipped. `run` returns 3 if the text of stream_how is wrong, and otherwise
 * the result of read_refused.
 */
static void in_child(int (*run)(struct image *))
{
	struct image *im = image_make(0);
	int status;
	pid_t pid;

	/* The child ends by exit(), so that `make coverage` counts the lines
	 * that the child has run. Without fflush the child would write buffered
	 * output again. */
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		exit(run(im));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	image_close(im);
	if (status == 77 << 8) {
		print_message("skipped: cannot be refused here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static int read_without_io_uring(struct image *im)
{
	char how[1000];
	int ret;

	forbid_io_uring();
	ret = read_refused(im, how, sizeof(how));
	if (ret || strstr(how, "; no io_uring: Operation not permitted"))
		return ret;
	print_message("%s\n", how);
	return 3;
}

static void test_no_io_uring(void **state)
{
	in_child(read_without_io_uring);
}

/*
 * Set a limit on locked memory under which an io_uring ring opens but a slot's
 * memory cannot be registered with the ring. The kernel applies the limit to
 * all processes of a user together, and other tests may run at the same time.
 * So the limit must be above the memory that the other tests lock, but by less
 * than the bytes of a slot. The limit is found in steps of 128 KiB; the ring
 * itself takes some pages. Returns 0 if there is no such limit at this time.
 */
#define LOCK_STEP ((rlim_t)128 << 10)
#define LOCK_MOST ((rlim_t)64 << 20)

static rlim_t limit_locking(void)
{
	struct rlimit r;
	struct io_uring ring;

	if (getrlimit(RLIMIT_MEMLOCK, &r))
		return 0;
	for (r.rlim_cur = LOCK_STEP;
		r.rlim_cur <= r.rlim_max && r.rlim_cur <= LOCK_MOST;
		r.rlim_cur += LOCK_STEP) {
		int ret = setrlimit(RLIMIT_MEMLOCK, &r)
			? -errno
			: io_uring_queue_init(4, &ring, 0);

		if (!ret)
			io_uring_queue_exit(&ring);
		if (ret != -ENOMEM)
			return ret ? 0 : r.rlim_cur;
	}
	return 0;
}

/* Repeat the test until no other process opens or closes a ring at the same
 * time. */
static int read_without_locking(struct image *im)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	char how[1000] = "", says[300];
	rlim_t limit = 0;

	/* Root has no limit, so become another user. PR_SET_DUMPABLE keeps
	 * /proc/self/fd accessible after that. */
	if ((!geteuid() && setuid(65534)) || prctl(PR_SET_DUMPABLE, 1))
		return 77;
	for (int i = 0; i < 500; i++, nanosleep(&pause, NULL)) {
		int ret;

		limit = limit_locking();
		if (!limit)
			continue;
		ret = read_refused(im, how, sizeof(how));
		if (ret)
			return ret;
		snprintf(says, sizeof(says),
			"; memory not registered: %zu KiB%s are more than "
			"RLIMIT_MEMLOCK, %llu KiB, allows",
			(size_t)ROOM >> 10,
			limit < ROOM
				? ""
				: " in addition to what this user has locked "
				  "already",
			(unsigned long long)limit >> 10);
		if (strstr(how, says))
			return 0;
	}
	print_message("%s\n", how);
	return limit ? 3 : 77;
}

static void test_no_locking(void **state)
{
	in_child(read_without_locking);
}

/* Open a stream while no further file descriptor is available. */
static void test_no_descriptor(void **state)
{
	struct image *im = image_make(0);
	struct stream_opts o = { .block = BLOCK };
	struct rlimit was, limit;
	struct stream *s = NULL;
	struct err e = { 0 };
	int next = dup(0);

	assert_true(next >= 0);
	close(next);
	getrlimit(RLIMIT_NOFILE, &was);
	limit = was;
	limit.rlim_cur = (rlim_t)next;
	setrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(stream_open(&s, im, &o, &e), -EMFILE);
	setrlimit(RLIMIT_NOFILE, &was);
	assert_null(s);
	assert_non_null(strstr(e.text, "cannot stream '"));
	assert_non_null(strstr(e.text, path));
	image_close(im);
}

/* ---- tuning ---- */

static char folder[4200], cache[4600], noted[5000];

/* Write the path of the only file in CACHE/tandem to `noted`. Returns false if
 * there is no file. */
static bool find_noted(void)
{
	char notes[4700];
	struct dirent *f;
	bool found = false;
	DIR *d;

	snprintf(notes, sizeof(notes), "%s/tandem", cache);
	d = opendir(notes);
	while (d && (f = readdir(d)))
		if (*f->d_name != '.') {
			assert_false(found);
			found = true;
			snprintf(noted, sizeof(noted), "%s/%s", notes,
				f->d_name);
		}
	if (d)
		closedir(d);
	return found;
}

static void note(const char *text)
{
	FILE *f = fopen(noted, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static bool among_tried(size_t block)
{
	return block >= 512 << 10 && block <= 4 << 20;
}

/* Make an image with one extent of 128 MiB of zeros. */
static struct image *image_large(void)
{
	struct image_write_opts o = { .n_extents = 1 };
	size_t bytes = 128 << 20;
	uint8_t *data = calloc(1, bytes);
	struct image_writer *w;
	struct image *im;
	struct err e = { 0 };

	assert_non_null(data);
	snprintf(folder, sizeof(folder), "%s", harness_tmp());
	snprintf(path, sizeof(path), "%s/large.tdm", folder);
	snprintf(cache, sizeof(cache), "%s/cache", folder);
	setenv("XDG_CACHE_HOME", cache, 1);
	assert_ok(image_writer_open(&w, path, &o, &e), &e);
	assert_ok(image_write(w, IMAGE_METADATA, 0, data, bytes, &e), &e);
	assert_ok(image_writer_commit(w, &e), &e);
	image_writer_close(w);
	free(data);
	assert_ok(image_open(&im, path, &e), &e);
	return im;
}

static void test_tune(void **state)
{
	static const char *const void_notes[] = { "", "1000\n", "0\n",
		"131072 3\n", "131072", "-131072\n", "99999999999999999999\n",
		"134217728\n", "x\n" };
	struct image *im = image_large();
	struct stream_opts o = { 0 };
	struct err e = { 0 };
	struct stream *s;
	size_t block;

	assert_ok(stream_tune(im, &block, &e), &e);
	assert_true(among_tried(block));
	if (!find_noted()) {
		print_message("skipped: no O_DIRECT or no io_uring here\n");
		skip();
	}
	note("131072\n");
	assert_ok(stream_tune(im, &block, &e), &e);
	assert_int_equal(block, 131072);
	assert_ok(stream_open(&s, im, &o, &e), &e);
	assert_non_null(strstr(stream_how(s), "; 128 KiB x "));
	stream_close(s);
	for (size_t i = 0; i < ARRAY_LEN(void_notes); i++) {
		note(void_notes[i]);
		assert_ok(stream_tune(im, &block, &e), &e);
		if (!among_tried(block) || block == 131072)
			fail_msg("note '%s' gave %zu", void_notes[i], block);
	}
	image_close(im);
}

/* Without a cache folder stream_tune measures nothing. A cache folder that
 * cannot be written is not an error. */
static void test_tune_no_cache(void **state)
{
	struct image *im = image_large();
	struct err e = { 0 };
	size_t block;

	setenv("XDG_CACHE_HOME", "relative", 1);
	unsetenv("HOME");
	assert_ok(stream_tune(im, &block, &e), &e);
	assert_int_equal(block, STREAM_BLOCK_DEFAULT);
	assert_int_equal(access("relative", F_OK), -1);
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	assert_ok(stream_tune(im, &block, &e), &e);
	assert_true(among_tried(block));
	assert_int_equal(mkdir(cache, 0700), 0);
	setenv("HOME", cache, 1);
	unsetenv("XDG_CACHE_HOME");
	assert_ok(stream_tune(im, &block, &e), &e);
	snprintf(cache, sizeof(cache), "%s/cache/.cache", folder);
	find_noted();
	image_close(im);
	/* With a small file stream_tune measures and saves nothing. */
	im = image_make(0);
	snprintf(cache, sizeof(cache), "%s.cache", path);
	setenv("XDG_CACHE_HOME", cache, 1);
	assert_ok(stream_tune(im, &block, &e), &e);
	assert_int_equal(block, STREAM_BLOCK_DEFAULT);
	assert_false(find_noted());
	image_close(im);
}

/* The file is cut short after it was opened, so measuring fails. */
static void test_tune_truncated(void **state)
{
	struct image *im = image_large();
	struct err e = { 0 };
	size_t block;
	int ret;

	assert_int_equal(truncate(path, 4096), 0);
	ret = stream_tune(im, &block, &e);
	assert_int_equal(block, STREAM_BLOCK_DEFAULT);
	if (ret) {
		assert_int_equal(ret, -ENODATA);
		assert_non_null(strstr(e.text, path));
	} else {
		print_message("skipped: no O_DIRECT or no io_uring here\n");
		skip();
	}
	image_close(im);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_how),
	cmocka_unit_test(test_no_io_uring),
	cmocka_unit_test(test_no_locking),
	cmocka_unit_test(test_no_descriptor),
	cmocka_unit_test(test_tune),
	cmocka_unit_test(test_tune_no_cache),
	cmocka_unit_test(test_tune_truncated),
};

TEST_FILE(tests)
