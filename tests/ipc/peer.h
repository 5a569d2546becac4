/* The peer process in the tests of a channel: fork, handshake, and check of its
 * exit status. */
#ifndef TESTS_IPC_PEER_H
#define TESTS_IPC_PEER_H

#include "tests/harness.h"

#include "base/err.h"
#include "ipc/channel.h"
#include "ipc/link.h"
#include "shm/coherence/coherence_hooks.h"
#include "shm/doorbell.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000ull

static inline struct wire_hello hello_of(enum doorbell_kind kind)
{
	return (struct wire_hello){
		.doorbell = (uint32_t)kind,
		.coherence = COHERENCE_STRICT,
		.threads = 1,
		.va_slots = 16,
		.va_window = 64 << 20,
		.spin_us = 50,
	};
}

/* ---- the peer process ---------------------------------------------- */

struct peer {
	pid_t pid;
	int link; /* our end of the link */
};

/* Fork a process that runs fn(link, arg) and exits with its result. */
static inline struct peer peer_start(int (*fn)(int link, int arg), int arg)
{
	struct err e = { 0 };
	struct peer p;
	int l[2];

	assert_ok(link_pair(l, &e), &e);
	p.pid = fork();
	assert_true(p.pid >= 0);
	if (!p.pid) {
		close(l[0]);
		_exit(fn(l[1], arg));
	}
	close(l[1]);
	p.link = l[0];
	return p;
}

static inline int peer_wait(const struct peer *p)
{
	int status = -1;

	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	return status;
}

static inline struct channel *connect_with(
	const struct peer *p, const struct wire_hello *h)
{
	struct wire_welcome w;
	struct channel *c = NULL;
	struct err e = { 0 };

	assert_ok(channel_connect(&c, p->link, h, &w, &e), &e);
	assert_int_equal(w.status, 0);
	assert_int_equal(w.device_pid, p->pid);
	channel_watch_pid(c, p->pid);
	return c;
}

static inline struct channel *connect_to(
	const struct peer *p, enum doorbell_kind kind)
{
	struct wire_hello h = hello_of(kind);

	return connect_with(p, &h);
}

static inline void peer_report(void *arg, const char *text)
{
	fprintf(stderr, "peer: %s\n", text);
}

static inline struct channel *accept_from(int link)
{
	static const struct coherence_hooks none = { .arg = NULL };
	struct wire_welcome w = { .threads = 1 };
	struct channel *c;
	struct wire_hello h;

	if (channel_accept(&c, link, &h, NULL))
		_exit(90);
	if (h.features & WIRE_FEATURE_CACHED_RINGS &&
		channel_cache_rings(c,
			&(struct coherence_config){
				.level = (enum coherence)h.coherence,
				.contract = (enum coherence_contract)h.contract,
				.evict_seed = h.evict_seed,
				.report = peer_report,
				.hooks = &none,
			},
			NULL))
		_exit(90);
	if (channel_welcome(c, &w, NULL))
		_exit(90);
	return c;
}

static inline int echo(int link, int count)
{
	struct channel *c = accept_from(link);
	struct wire_share s;
	struct packet p;
	int fd;

	for (int n = 0; n != count;) {
		int ret = channel_recv(c, &p, -1, NULL);

		if (ret == -EAGAIN)
			ret = channel_next_share(c, &s, &fd, NULL);
		else if (!ret && ++n)
			ret = channel_send(c, p.refs, p.n_refs, p.msg, p.len,
				&p.seq, NULL);
		if (ret == -ECONNRESET)
			break;
		if (ret < 0)
			return 91;
	}
	if (channel_violations(c))
		return 92;
	channel_close(c);
	return 0;
}

#endif
