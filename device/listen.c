#include "device/listen.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "ipc/channel.h"
#include "ipc/link.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_NS 5000000000ull /* for a hello */
#define BREATH_MS   100           /* when the system refuses a connection */

enum { POLL_SIGNAL, POLL_OTHER, POLL_LISTEN, POLL_KNOCKS };

int listener_open(
	struct listener *l, const char *path, int signal_fd, struct err *e)
{
	*l = (struct listener){ .path = path, .signal_fd = signal_fd };
	return link_listen(path, &l->fd, e);
}

static void forget(struct listener *l, unsigned i)
{
	l->n_knocks--;
	memmove(&l->knock[i], &l->knock[i + 1],
		(l->n_knocks - i) * sizeof(l->knock[0]));
}

static void hang_up(struct listener *l, unsigned i)
{
	fd_close(&l->knock[i].fd);
	forget(l, i);
}

void listener_close(struct listener *l)
{
	while (l->n_knocks)
		hang_up(l, 0);
	fd_close(&l->fd);
}

/* Want of descriptors or memory passes, and so does a client that left
 * already: neither is a reason to end, nor to ask again at once. */
static void let_in(struct listener *l)
{
	int fd;

	if (link_accept(l->fd, &fd, NULL)) {
		poll(NULL, 0, BREATH_MS);
		return;
	}
	if (l->n_knocks == LISTEN_KNOCKS)
		hang_up(l, 0);
	l->knock[l->n_knocks++] =
		(struct knock){ fd, clock_ns() + PATIENCE_NS };
}

/* Who has something to say: true when it was a hello. */
static bool greet(struct listener *l, unsigned i, struct guest *g)
{
	struct err e = { 0 };
	int ret;

	g->link = l->knock[i].fd;
	forget(l, i);
	ret = channel_accept(&g->channel, g->link, &g->hello, &e);
	/* Another device may only have looked whether somebody listens. */
	if (ret && ret != -EPIPE)
		fprintf(stderr, "tandem-npu: turned away: %s\n", e.text);
	return !ret;
}

/* Milliseconds until the oldest has been silent for too long; -1: none. */
static int patience_ms(const struct listener *l)
{
	uint64_t now = clock_ns();

	if (!l->n_knocks)
		return -1;
	if (l->knock[0].until_ns <= now)
		return 0;
	return (int)((l->knock[0].until_ns - now) / 1000000u) + 1;
}

static void drop_silent(struct listener *l)
{
	uint64_t now = clock_ns();

	while (l->n_knocks && l->knock[0].until_ns <= now)
		hang_up(l, 0);
}

/* What is there now: one of the news, or -EAGAIN. */
static int look(struct listener *l, const struct pollfd *p, struct guest *g)
{
	if (p[POLL_SIGNAL].revents)
		return LISTEN_SIGNAL;
	if (p[POLL_OTHER].revents)
		return LISTEN_OTHER;
	/* From the last: greeting one moves those behind it. */
	for (unsigned i = l->n_knocks; i--;)
		if (p[POLL_KNOCKS + i].revents && greet(l, i, g))
			return LISTEN_HOST;
	if (p[POLL_LISTEN].revents)
		let_in(l);
	drop_silent(l);
	return -EAGAIN;
}

int listener_wait(
	struct listener *l, int other_fd, struct guest *g, struct err *e)
{
	struct pollfd p[POLL_KNOCKS + LISTEN_KNOCKS] = {
		[POLL_SIGNAL] = { l->signal_fd, POLLIN, 0 },
		[POLL_OTHER] = { other_fd, POLLIN, 0 },
		[POLL_LISTEN] = { l->fd, POLLIN, 0 },
	};
	int ret = -EAGAIN;

	while (ret == -EAGAIN) {
		for (unsigned i = 0; i < l->n_knocks; i++)
			p[POLL_KNOCKS + i] =
				(struct pollfd){ l->knock[i].fd, POLLIN, 0 };
		if (poll(p, POLL_KNOCKS + l->n_knocks, patience_ms(l)) >= 0)
			ret = look(l, p, g);
		else if (errno != EINTR)
			return err_sys(e, errno, "cannot wait for a host");
	}
	return ret;
}

void guest_refuse(struct guest *g, int status, const char *why)
{
	struct wire_welcome w = { .status = status };

	snprintf(w.text, sizeof(w.text), "%s", why);
	channel_welcome(g->channel, &w, NULL);
	channel_close(g->channel);
}
