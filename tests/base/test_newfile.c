#include "tests/harness.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/newfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[4200], path[4300];

static void fresh(void)
{
	snprintf(dir, sizeof(dir), "%s", harness_tmp());
	snprintf(path, sizeof(path), "%s/file", dir);
}

static int files_in(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void write_new(const char *to, const char *text, int commit)
{
	struct newfile f;
	struct err e = { 0 };

	assert_ok(newfile_open(&f, to, NEWFILE_PUBLIC, &e), &e);
	assert_int_equal(fd_write_all(f.fd, text, strlen(text)), 0);
	if (commit)
		assert_ok(newfile_commit(&f, &e), &e);
	newfile_close(&f);
	newfile_close(&f);
}

static void holds(const char *text)
{
	struct err e = { 0 };
	char *data;
	size_t len;

	assert_ok(fd_read_file(path, 1000, &data, &len, &e), &e);
	assert_string_equal(data, text);
	assert_int_equal(files_in(dir), 1);
	free(data);
}

static void test_commit_is_atomic(void **state)
{
	fresh();
	write_new(path, "half", 0);
	assert_int_equal(files_in(dir), 0);
	write_new(path, "first", 1);
	holds("first");
	write_new(path, "half", 0);
	holds("first");
	write_new(path, "second", 1);
	holds("second");
}

static void test_through_links(void **state)
{
	char link[4400];
	struct stat st;

	fresh();
	write_new(path, "old", 1);
	snprintf(link, sizeof(link), "%s/link", harness_tmp());
	assert_int_equal(symlink(path, link), 0);
	write_new(link, "new", 1);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	holds("new");
}

static void test_refused(void **state)
{
	struct newfile f;
	struct err e = { 0 };

	fresh();
	assert_int_equal(newfile_open(&f, dir, NEWFILE_PUBLIC, &e), -EINVAL);
	assert_non_null(strstr(e.text, "not a regular file"));
	assert_int_equal(
		newfile_open(&f, "/dev/full", NEWFILE_PUBLIC, &e), -EINVAL);
	snprintf(path, sizeof(path), "%s/none/file", dir);
	assert_int_equal(newfile_open(&f, path, NEWFILE_PUBLIC, &e), -ENOENT);
	assert_non_null(strstr(e.text, path));
	newfile_close(&f);
}

/* The target of a link can be a file that has no name any more. */
static void test_nameless_target(void **state)
{
	struct newfile f;
	struct err e = { 0 };
	char link[64];
	int fd;

	fresh();
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	assert_int_equal(newfile_open(&f, link, NEWFILE_PUBLIC, &e), -ENOENT);
	assert_non_null(strstr(e.text, "cannot write '/proc/self/fd/"));
	fd_close(&fd);
}

static void commit_fails(struct newfile *f, int code, const char *says)
{
	struct err e = { 0 };

	assert_int_equal(newfile_commit(f, &e), code);
	if (!strstr(e.text, says) || !strstr(e.text, path))
		fail_msg("'%s' does not say '%s' and '%s'", e.text, says, path);
	newfile_close(f);
}

/* A commit that fails says why and leaves no temporary file. */
static void test_failed_commits(void **state)
{
	struct newfile f;
	struct err e = { 0 };
	int no_disk[2];

	fresh();
	/* The data cannot be synced: a pipe takes the place of the file. */
	assert_ok(newfile_open(&f, path, NEWFILE_PUBLIC, &e), &e);
	assert_int_equal(pipe(no_disk), 0);
	assert_int_equal(dup2(no_disk[1], f.fd), f.fd);
	commit_fails(&f, -EINVAL, "cannot write");
	fd_close(&no_disk[0]);
	fd_close(&no_disk[1]);
	assert_int_equal(files_in(dir), 0);
	/* A folder has got the name of the file meanwhile. */
	assert_ok(newfile_open(&f, path, NEWFILE_PUBLIC, &e), &e);
	assert_int_equal(mkdir(path, 0700), 0);
	commit_fails(&f, -EISDIR, "cannot rename");
	assert_int_equal(files_in(dir), 1);
	assert_int_equal(rmdir(path), 0);
	/* The folder of the file is gone. */
	assert_ok(newfile_open(&f, path, NEWFILE_PUBLIC, &e), &e);
	assert_int_equal(rmdir(dir), 0);
	commit_fails(&f, -ENOENT, "cannot write");
}

/* The file is private from its creation on, even if a killed writer left a
 * temporary file that all users can read. */
static void test_private(void **state)
{
	mode_t old = umask(0);
	struct err e = { 0 };
	char left[4400];
	struct newfile f;
	struct stat st;
	int fd;

	fresh();
	snprintf(left, sizeof(left), "%s.tmp", path);
	fd = open(left, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	assert_int_equal(fd_write_all(fd, "an old file", 11), 0);
	fd_close(&fd);
	assert_ok(newfile_open(&f, path, NEWFILE_PRIVATE, &e), &e);
	umask(old);
	assert_string_equal(f.temporary, left);
	assert_int_equal(fstat(f.fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(files_in(dir), 0); /* the old temporary file is gone */
	assert_int_equal(fd_write_all(f.fd, "new", 3), 0);
	assert_ok(newfile_commit(&f, &e), &e);
	newfile_close(&f);
	holds("new");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

/* A writer is killed while it writes: the path has no new file, or keeps the
 * old file. */
static void test_killed(void **state)
{
	fresh();
	for (int there = 0; there < 2; there++) {
		int status;
		pid_t child = fork();

		if (!child) {
			struct newfile f;

			if (newfile_open(&f, path, NEWFILE_PUBLIC, NULL) ||
				fd_write_all(f.fd, "half", 4))
				_exit(1);
			raise(SIGKILL);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(files_in(dir), there);
		if (!there)
			write_new(path, "old", 1);
	}
	holds("old");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_commit_is_atomic),
	cmocka_unit_test(test_through_links),
	cmocka_unit_test(test_refused),
	cmocka_unit_test(test_nameless_target),
	cmocka_unit_test(test_failed_commits),
	cmocka_unit_test(test_private),
	cmocka_unit_test(test_killed),
};

TEST_FILE(tests)
