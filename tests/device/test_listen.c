/*
 * Tests a listening device: which clients it serves, which clients it refuses,
 * and that its socket file is removed when it ends.
 */
#include "tests/device/served.h"

#include "base/checked.h"

#include <sys/socket.h>

static void listens_once(void **state)
{
	struct err e = { 0 };
	struct stat st;
	struct pair p;
	char path[128];

	snprintf(path, sizeof(path), "%s/npu", harness_tmp());
	p.pid = start(-1, -1, path, NULL);
	wait_for_path(path);
	/* A client that only connects, as another device does to test the path,
	 * is not a host. */
	while (link_connect(path, &p.link, &e))
		usleep(1000);
	fd_close(&p.link);
	assert_ok(link_connect(path, &p.link, &e), &e);
	assert_ok(channel_connect(
			  &p.channel, p.link, &usual_hello, &p.welcome, &e),
		&e);
	assert_int_not_equal(stat(path, &st), 0);
	assert_int_equal(nop(&p), 0);
	channel_bye(p.channel);
	channel_close(p.channel);
	assert_int_equal(outcome(p.pid), 0);
}

static void the_listener_removes_its_path(void **state)
{
	struct stat st;
	char path[128];
	pid_t pid;

	snprintf(path, sizeof(path), "%s/npu", harness_tmp());
	pid = start(-1, -1, path, NULL);
	wait_for_path(path);
	kill(pid, SIGINT);
	assert_int_equal(outcome(pid), 100 + SIGINT);
	assert_int_not_equal(stat(path, &st), 0);
}

/* ---- one host after another --------------------------------------------- */

struct listening {
	char path[128];
	pid_t pid;
};

static void listening_start(struct listening *l, const char *fault)
{
	snprintf(l->path, sizeof(l->path), "%s/npu", harness_tmp());
	l->pid = fork();
	if (!l->pid)
		_exit(child(-1, l->path, false, fault));
	wait_for_path(l->path);
}

static void listening_end(struct listening *l)
{
	struct stat st;

	kill(l->pid, SIGTERM);
	assert_int_equal(outcome(l->pid), 100 + SIGTERM);
	assert_int_not_equal(stat(l->path, &st), 0);
}

/* Connect, and send no message yet. */
static int knock(const struct listening *l)
{
	struct err e = { 0 };
	int fd = -1;

	for (int i = 0; i < 500 && link_connect(l->path, &fd, &e); i++)
		usleep(10000); /* there is a file, but no listener yet */
	if (fd < 0)
		fail_msg("%s", e.text);
	return fd;
}

static int visit(const struct listening *l, struct pair *p, struct err *e)
{
	int ret;

	p->link = knock(l);
	ret = channel_connect(
		&p->channel, p->link, &usual_hello, &p->welcome, e);
	if (!ret) /* pid of the serving process, not of the listener */
		p->pid = (pid_t)p->welcome.device_pid;
	return ret;
}

static void visit_well(const struct listening *l, struct pair *p)
{
	struct err e = { 0 };

	assert_ok(visit(l, p, &e), &e);
	assert_int_equal(nop(p), 0);
}

/* No matter how a host ends, the next host is served at once. */
static void serves_one_after_another(void **state)
{
	struct listening l;
	struct pair p;

	listening_start(&l, NULL);
	for (int i = 0; i < 9; i++) {
		visit_well(&l, &p);
		assert_int_not_equal(p.pid, l.pid);
		if (i % 3 == 0)
			channel_bye(p.channel);
		if (i % 3 == 1) {
			kill(p.pid, SIGKILL);
			assert_int_equal(nop(&p), -EPIPE);
		}
		channel_close(p.channel); /* i % 3 is 2: no goodbye */
	}
	listening_end(&l);
}

static void refuses_a_second_host(void **state)
{
	struct err e = { 0 };
	struct listening l;
	struct pair first, second;
	char want[64];

	listening_start(&l, NULL);
	visit_well(&l, &first);
	assert_int_not_equal(visit(&l, &second, &e), 0);
	snprintf(want, sizeof(want), "serves another host (pid %d)",
		(int)getpid());
	if (!strstr(e.text, want))
		fail_msg("'%s' does not say '%s'", e.text, want);
	assert_int_equal(nop(&first), 0);
	channel_close(first.channel);
	visit_well(&l, &second);
	channel_close(second.channel);
	listening_end(&l);
}

/* There are more silent clients than the device keeps connected, and some
 * clients send garbage. */
static void silent_clients_delay_no_host(void **state)
{
	int silent[12];
	struct listening l;
	struct pair p;
	uint64_t began;

	listening_start(&l, NULL);
	for (unsigned i = 0; i < ARRAY_LEN(silent); i++)
		silent[i] = knock(&l);
	assert_int_equal(send(silent[11], "garbage", 7, MSG_NOSIGNAL), 7);
	assert_int_equal(send(silent[10], "", 0, MSG_NOSIGNAL), 0);
	fd_close(&silent[9]);
	began = clock_ns();
	visit_well(&l, &p);
	/* A silent client may stay for five seconds, but delays no other
	 * client. */
	assert_in_range((clock_ns() - began) / 1000000, 0, 4500);
	channel_bye(p.channel);
	channel_close(p.channel);
	for (unsigned i = 0; i < ARRAY_LEN(silent); i++)
		fd_close(&silent[i]);
	visit_well(&l, &p);
	channel_close(p.channel);
	listening_end(&l);
}

/* A signal to the listener also ends the process that serves a host, and the
 * host detects this. */
static void ends_with_its_child(void **state)
{
	struct listening l;
	struct pair p;

	listening_start(&l, NULL);
	visit_well(&l, &p);
	listening_end(&l);
	assert_int_equal(nop(&p), -EPIPE);
	channel_close(p.channel);
	/* The host detects the end even if the listener is killed. */
	listening_start(&l, NULL);
	visit_well(&l, &p);
	kill(l.pid, SIGKILL);
	assert_int_equal(outcome(l.pid), 1000 + SIGKILL);
	assert_int_equal(nop(&p), -EPIPE);
	channel_close(p.channel);
	unlink(l.path);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(listens_once),
	cmocka_unit_test(the_listener_removes_its_path),
	cmocka_unit_test(serves_one_after_another),
	cmocka_unit_test(refuses_a_second_host),
	cmocka_unit_test(silent_clients_delay_no_host),
	cmocka_unit_test(ends_with_its_child),
};

TEST_FILE(tests)
