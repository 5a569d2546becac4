/*
 * A device in a separate process with the seccomp filter. The test acts as the
 * host: it starts the device, sends requests and checks the device's exit
 * status. Header only.
 */
#ifndef TESTS_DEVICE_SERVED_H
#define TESTS_DEVICE_SERVED_H

#include "tests/harness.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "device/fault.h"
#include "device/serve.h"
#include "ipc/channel.h"
#include "ipc/link.h"
#include "shm/coherence/tandem_coherence.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Time limit for a device to detect that its host has died. On an idle machine
 * the device needs less than a second. */
#define LOST_WITHIN_MS 10000

static const struct wire_hello usual_hello = {
	.coherence = COHERENCE_CHECK,
	.threads = 2,
	.va_slots = 4,
	.va_window = 32 << 20,
	.spin_us = 20,
};

/* Called in the child process: does what the device's main does, but parses no
 * options. */
static inline int child(int fd, const char *path, bool once, const char *what)
{
	struct serve_result result;
	struct fault fault;
	struct err e = { 0 };
	struct serve_opts opts = {
		.fd = fd,
		.listen = path,
		.once = once,
		.fault = &fault,
		.sandbox = true,
	};
	int ret;

	if (fault_parse(&fault, what, &e))
		return 2;
	fault.life = path && !once ? 0 : 1;
	ret = serve(&opts, &result, &e);
	if (ret == -EPIPE)
		return 3;
	if (ret || result.violations)
		return 1;
	return result.signal ? 100 + result.signal : 0;
}

struct pair {
	pid_t pid;
	struct channel *channel;
	int link; /* socket of the channel, for direct use by tests */
	struct wire_welcome welcome;
};

static inline pid_t start(
	int device_fd, int host_fd, const char *path, const char *fault)
{
	pid_t pid = fork();

	if (!pid) {
		fd_close(&host_fd);
		_exit(child(device_fd, path, true, fault));
	}
	return pid;
}

static inline void pair_open(
	struct pair *p, const struct wire_hello *h, const char *fault)
{
	struct err e = { 0 };
	int fd[2];

	assert_ok(link_pair(fd, &e), &e);
	p->pid = start(fd[1], fd[0], NULL, fault);
	fd_close(&fd[1]);
	p->link = fd[0];
	assert_ok(channel_connect(&p->channel, fd[0], h, &p->welcome, &e), &e);
	channel_watch_pid(p->channel, p->pid);
}

/* The child's exit status, or 1000 + the signal that killed it. */
static inline int outcome(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

static inline int request(
	struct pair *p, const void *msg, size_t len, struct wire_done *done)
{
	struct packet got;
	struct err e = { 0 };
	uint32_t seq;
	int ret = channel_send(p->channel, NULL, 0, msg, len, &seq, &e);

	if (!ret)
		ret = channel_recv(p->channel, &got, 5000, &e);
	if (ret)
		return ret;
	assert_int_equal(got.seq, seq);
	assert_true(got.len >= sizeof(*done));
	memcpy(done, got.msg, sizeof(*done));
	return 0;
}

static inline int nop(struct pair *p)
{
	struct wire_simple s = { WIRE_NOP, 0 };
	struct wire_done done;
	int ret = request(p, &s, sizeof(s), &done);

	if (!ret) {
		assert_int_equal(done.op, WIRE_NOP);
		assert_int_equal(done.status, 0);
	}
	return ret;
}

static inline void wait_for_path(const char *path)
{
	struct stat st;

	for (int i = 0; i < 500 && stat(path, &st); i++)
		usleep(10000);
}

#endif
