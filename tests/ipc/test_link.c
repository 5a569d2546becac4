#include "tests/harness.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "ipc/channel.h"
#include "ipc/link.h"
#include "shm/doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void make_pair(int fd[2])
{
	struct err e = { 0 };

	assert_ok(link_pair(fd, &e), &e);
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void test_message_with_fds(void **state)
{
	int before = open_fds(), l[2], p[2], got[4] = { -1, -1, -1, -1 };
	struct err e = { 0 };
	char buf[64];
	unsigned n;
	size_t len;

	make_pair(l);
	assert_int_equal(pipe(p), 0);
	assert_ok(link_send(l[0], "hello", 6, p, 2, &e), &e);
	assert_ok(
		link_recv(l[1], buf, sizeof(buf), &len, got, 4, &n, 0, &e), &e);
	assert_int_equal(len, 6);
	assert_string_equal(buf, "hello");
	assert_int_equal(n, 2);
	assert_true(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(got[1], F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(got[1], "x", 1), 1);
	assert_int_equal(read(p[0], buf, 1), 1);
	for (int i = 0; i < 2; i++) {
		fd_close(&got[i]);
		fd_close(&p[i]);
		fd_close(&l[i]);
	}
	assert_int_equal(open_fds(), before);
}

static void test_nothing_there(void **state)
{
	uint64_t began = clock_ns();
	struct err e = { 0 };
	char buf[8];
	unsigned n;
	size_t len;
	int l[2];

	make_pair(l);
	assert_int_equal(
		link_recv(l[1], buf, 8, &len, NULL, 0, &n, 0, &e), -EAGAIN);
	assert_int_equal(
		link_recv(l[1], buf, 8, &len, NULL, 0, &n, 30, &e), -EAGAIN);
	assert_in_range(clock_ns() - began, 29000000, 20000000000);
	assert_false(link_hung_up(l[1]));
	fd_close(&l[0]);
	fd_close(&l[1]);
}

/* After a refused message no descriptor is left open. */
static void test_too_much(void **state)
{
	int before = open_fds(), l[2], fds[2] = { 0, 0 }, got[1];
	struct err e = { 0 };
	char buf[8], big[9] = { 0 };
	unsigned n = 9;
	size_t len;

	make_pair(l);
	assert_ok(link_send(l[0], big, 9, fds, 1, &e), &e);
	assert_int_equal(
		link_recv(l[1], buf, 8, &len, got, 1, &n, 0, &e), -EPROTO);
	assert_int_equal(n, 0);
	assert_ok(link_send(l[0], big, 8, fds, 2, &e), &e);
	assert_int_equal(
		link_recv(l[1], buf, 8, &len, got, 1, &n, 0, &e), -EPROTO);
	assert_ok(link_send(l[0], big, 8, fds, 1, &e), &e);
	assert_int_equal(
		link_recv(l[1], buf, 8, &len, NULL, 0, &n, 0, &e), -EPROTO);
	fd_close(&l[0]);
	fd_close(&l[1]);
	assert_int_equal(open_fds(), before);
}

/* A message has more descriptors than the receiver has space for, so the kernel
 * does not deliver all of them. */
static void test_control_truncated(void **state)
{
	int before = open_fds(), l[2], got[LINK_MAX_FDS];
	char control[CMSG_SPACE(sizeof(int) * 20)] = { 0 };
	struct iovec iov = { (char[]){ 'x' }, 1 };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	struct err e = { 0 };
	char buf[8];
	unsigned n;
	size_t len;

	make_pair(l);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	/* descriptor 0, twenty times */
	c->cmsg_len = CMSG_LEN(sizeof(int) * 20);
	assert_int_equal(sendmsg(l[0], &m, 0), 1);
	assert_int_equal(
		link_recv(l[1], buf, 8, &len, got, LINK_MAX_FDS, &n, 0, &e),
		-EPROTO);
	fd_close(&l[0]);
	fd_close(&l[1]);
	assert_int_equal(open_fds(), before);
}

/* The message arrives, but this process has reached its limit of open files. */
static void test_table_full(void **state)
{
	int before = open_fds(), l[2], fds[2] = { 0, 0 }, got[LINK_MAX_FDS];
	struct rlimit was, full;
	struct err e = { 0 };
	char buf[8] = "x";
	unsigned n;
	size_t len;
	int ret;

	make_pair(l);
	assert_ok(link_send(l[0], buf, 1, fds, 2, &e), &e);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	full = was;
	full.rlim_cur = (rlim_t)l[1] + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &full), 0);
	ret = link_recv(l[1], buf, 8, &len, got, LINK_MAX_FDS, &n, 0, &e);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(ret, -EMFILE);
	assert_int_equal(n, 0);
	fd_close(&l[0]);
	fd_close(&l[1]);
	assert_int_equal(open_fds(), before);
}

static void test_peer_gone(void **state)
{
	struct err e = { 0 };
	char buf[8];
	unsigned n;
	size_t len;
	int l[2];

	make_pair(l);
	assert_ok(link_send(l[0], "last", 4, NULL, 0, &e), &e);
	fd_close(&l[0]);
	assert_true(link_hung_up(l[1]));
	/* Messages that were sent before the hang-up are still received. */
	assert_ok(link_recv(l[1], buf, 8, &len, NULL, 0, &n, -1, &e), &e);
	assert_int_equal(len, 4);
	assert_int_equal(
		link_recv(l[1], buf, 8, &len, NULL, 0, &n, -1, &e), -EPIPE);
	assert_int_equal(link_send(l[1], "x", 1, NULL, 0, &e), -EPIPE);
	fd_close(&l[1]);
}

/* A full socket makes the sender wait, not fail. */
static void test_full_socket(void **state)
{
	char big[LINK_MAX_MSG] = { 0 };
	struct err e = { 0 };
	unsigned n, sent = 0;
	size_t len;
	int l[2], status;

	make_pair(l);
	while (send(l[0], big, sizeof(big), MSG_DONTWAIT) > 0)
		sent++;
	assert_true(sent > 8);
	if (!fork()) {
		usleep(20000);
		for (unsigned i = 0; i <= sent; i++)
			if (link_recv(l[1], big, sizeof(big), &len, NULL, 0, &n,
				    2000, NULL))
				_exit(1);
		_exit(0);
	}
	assert_ok(link_send(l[0], big, sizeof(big), NULL, 0, &e), &e);
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
	fd_close(&l[0]);
	fd_close(&l[1]);
}

/* ---- by path ------------------------------------------------------- */

static void test_listen_connect(void **state)
{
	struct err e = { 0 };
	char path[4200], buf[8];
	int listener, a, b, second;
	struct stat st;
	unsigned n;
	size_t len;

	snprintf(path, sizeof(path), "%s/npu", harness_tmp());
	assert_int_equal(link_connect(path, &a, &e), -ENOENT);
	assert_non_null(strstr(e.text, path));
	assert_ok(link_listen(path, &listener, &e), &e);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_ok(link_connect(path, &a, &e), &e);
	assert_ok(link_accept(listener, &b, &e), &e);
	assert_true(fcntl(b, F_GETFD) & FD_CLOEXEC);
	assert_ok(link_send(a, "hi", 2, NULL, 0, &e), &e);
	assert_ok(link_recv(b, buf, 8, &len, NULL, 0, &n, 1000, &e), &e);
	assert_int_equal(len, 2);

	/* A socket with a listener is refused; without a listener it is
	 * replaced. */
	assert_int_equal(link_listen(path, &second, &e), -EADDRINUSE);
	assert_non_null(strstr(e.text, "listens"));
	fd_close(&a);
	fd_close(&b);
	fd_close(&listener);
	assert_int_equal(link_connect(path, &a, &e), -ECONNREFUSED);
	assert_ok(link_listen(path, &second, &e), &e);
	fd_close(&second);
	unlink(path);
}

static void test_not_a_socket(void **state)
{
	struct err e = { 0 };
	char path[4200];
	int fd;

	snprintf(path, sizeof(path), "%s/file", harness_tmp());
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	fd_close(&fd);
	assert_int_equal(link_listen(path, &fd, &e), -EADDRINUSE);
	assert_non_null(strstr(e.text, "not a socket"));
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

static void test_path_too_long(void **state)
{
	struct err e = { 0 };
	char path[200];
	int fd;

	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(link_listen(path, &fd, &e), -ENAMETOOLONG);
	assert_int_equal(link_connect(path, &fd, &e), -ENAMETOOLONG);
	assert_int_equal(link_connect("", &fd, &e), -ENAMETOOLONG);
}

static void test_peer_pid(void **state)
{
	char path[4200];
	int listener, fd, status;
	struct err e = { 0 };
	pid_t child, parent = getpid();

	snprintf(path, sizeof(path), "%s/npu", harness_tmp());
	assert_ok(link_listen(path, &listener, &e), &e);
	child = fork();
	if (!child) {
		if (link_connect(path, &fd, NULL))
			_exit(1);
		_exit(link_peer_pid(fd) == parent ? 0 : 2);
	}
	assert_ok(link_accept(listener, &fd, &e), &e);
	assert_int_equal(link_peer_pid(fd), child);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	fd_close(&fd);
	fd_close(&listener);
	unlink(path);
}

/* A process of another user is refused at both ends of the link, and by a
 * channel. The test needs two users, so it must run as root. */
static void test_other_user(void **state)
{
	const struct wire_hello hello = { .va_slots = 1,
		.va_window = WIRE_WINDOW_MIN,
		.doorbell = DOORBELL_EVENTFD };
	struct wire_welcome w;
	struct err e = { 0 };
	const char *dir;
	struct channel *c;
	char path[4200];
	int listener, fd, status;
	pid_t child;

	if (geteuid())
		skip();
	dir = harness_tmp();
	snprintf(path, sizeof(path), "%s/npu", dir);
	assert_int_equal(chmod(dir, 0755), 0);
	assert_ok(link_listen(path, &listener, &e), &e);
	/* Let all users connect, so that only the check of the client's user id
	 * refuses the client. */
	assert_int_equal(chmod(path, 0666), 0);
	child = fork();
	if (!child) {
		/* Connect from within the socket's folder, because the user may
		 * not search the folders above it. */
		if (chdir(dir) || setuid(65534) ||
			link_connect("npu", &fd, NULL))
			_exit(77);
		if (link_check_user(fd, &e) != -EPERM ||
			!strstr(e.text, "user 0") || !strstr(e.text, "65534"))
			_exit(2);
		/* The host sends nothing to a process of another user, not even
		 * a hello. */
		_exit(channel_connect(&c, fd, &hello, &w, &e) == -EPERM ? 0
									: 3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_ok(link_accept(listener, &fd, &e), &e);
	assert_int_equal(link_check_user(fd, &e), -EPERM);
	assert_int_equal(recv(fd, &status, 1, MSG_DONTWAIT), 0);
	fd_close(&fd);
	fd_close(&listener);
	unlink(path);
}

static void test_same_user(void **state)
{
	struct err e = { 0 };
	int l[2];

	make_pair(l);
	assert_ok(link_check_user(l[0], &e), &e);
	assert_ok(link_check_user(l[1], &e), &e);
	fd_close(&l[0]);
	fd_close(&l[1]);
	assert_int_not_equal(link_check_user(-1, &e), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_message_with_fds),
	cmocka_unit_test(test_nothing_there),
	cmocka_unit_test(test_too_much),
	cmocka_unit_test(test_control_truncated),
	cmocka_unit_test(test_table_full),
	cmocka_unit_test(test_peer_gone),
	cmocka_unit_test(test_full_socket),
	cmocka_unit_test(test_listen_connect),
	cmocka_unit_test(test_not_a_socket),
	cmocka_unit_test(test_path_too_long),
	cmocka_unit_test(test_peer_pid),
	cmocka_unit_test(test_same_user),
	cmocka_unit_test(test_other_user),
};

TEST_FILE(tests)
