#include "device/watch.h"

#include "base/err.h"
#include "base/fd.h"
#include "ipc/channel.h"
#include "ipc/wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* The time that the main thread has for an orderly end. This time must be well
 * below a second, because the host's death must be reported within a second. */
#define GRACE_MS 300

/* If ringing the doorbell takes longer than HELD_MS, the write that rings it
 * counts as blocked. The watcher interrupts the write by HELD_SIGNAL, a signal
 * that no other code sends and that is ignored by default. */
#define HELD_MS     20
#define HELD_SIGNAL SIGURG

int watch_signals(int *fd, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (pthread_sigmask(SIG_BLOCK, &set, NULL))
		return err_set(e, EINVAL, "cannot block signals");
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return err_sys(e, errno, "cannot ignore SIGPIPE");
	*fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *fd < 0 ? err_sys(e, errno, "cannot create a signalfd") : 0;
}

int watch_take_signal(int fd)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	return (int)info.ssi_signo;
}

/* Wait until the main thread calls watch_stop, for at most GRACE_MS. Returns
 * whether the main thread called watch_stop. */
static int stopped_in_time(const struct watch *w)
{
	struct pollfd p = { w->stop_fd, POLLIN, 0 };

	return poll(&p, 1, GRACE_MS) > 0;
}

/* End the process at once, even if the main thread is inside a long request. */
static void end(int status)
{
	fflush(stderr);
	_exit(status);
}

static void nothing(int signo)
{
}

static void *watch_main(void *arg)
{
	struct watch *w = arg;
	int timeout = channel_may_be_held(w->channel) ? HELD_MS : -1;
	uint32_t ring, before = 0;
	struct pollfd p[3] = {
		{ w->stop_fd, POLLIN, 0 }, { w->signal_fd, POLLIN, 0 },
		{ w->link, 0, 0 }, /* no events: poll reports only a hang-up */
	};

	for (;;) {
		if (poll(p, 3, timeout) < 0)
			continue;
		if (p[0].revents)
			return NULL;
		if (p[1].revents) {
			int signo = watch_take_signal(w->signal_fd);

			atomic_store(&w->signal, signo);
			if (signo && !stopped_in_time(w)) {
				fprintf(stderr,
					"tandem-npu: ended by signal %d\n",
					signo);
				end(128 + signo);
			}
		} else if (p[2].revents) {
			uint32_t op = 0;
			ssize_t n;

			if (stopped_in_time(w))
				continue;
			n = recv(w->link, &op, sizeof(op),
				MSG_PEEK | MSG_DONTWAIT);
			if (n == sizeof(op) && op == WIRE_BYE)
				end(0);
			fprintf(stderr,
				"tandem-npu: the host (pid %d) is gone\n",
				(int)w->host);
			end(3);
		} else {
			/* The signal makes the write to the doorbell return
			 * EINTR. A signal that arrives before the write begins
			 * has no effect; then the signal of the next loop
			 * iteration ends the write. */
			ring = channel_ringing(w->channel);
			if (ring && ring == before)
				pthread_kill(w->main, HELD_SIGNAL);
			before = ring;
		}
	}
}

int watch_start(struct watch *w, const struct channel *channel, int link,
	int signal_fd, pid_t host, struct err *e)
{
	/* SA_RESTART is not set, so that the signal ends a blocked write. */
	const struct sigaction held = { .sa_handler = nothing };
	int ret;

	sigaction(HELD_SIGNAL, &held, NULL);
	w->main = pthread_self();
	w->channel = channel;
	w->link = link;
	w->signal_fd = signal_fd;
	w->host = host;
	atomic_store(&w->signal, 0);
	w->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (w->stop_fd < 0)
		return err_sys(e, errno, "cannot create an eventfd");
	ret = pthread_create(&w->thread, NULL, watch_main, w);
	if (ret) {
		fd_close(&w->stop_fd);
		return err_sys(e, ret,
			"cannot start the watcher's thread (no memory, or the "
			"limit of ulimit -u is reached)");
	}
	return 0;
}

void watch_stop(struct watch *w)
{
	uint64_t one = 1;

	fd_write_all(w->stop_fd, &one, sizeof(one));
	pthread_join(w->thread, NULL);
	fd_close(&w->stop_fd);
}
