#include "ipc/link.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SEND_TIMEOUT_MS 5000

int link_pair(int fd[2], struct err *e)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd))
		return err_sys(e, errno, "cannot create a socket pair");
	return 0;
}

/* ---- sockets with a path ------------------------------------------------- */

static int link_address(const char *path, struct sockaddr_un *a, struct err *e)
{
	size_t n = strlen(path);

	if (!n || n >= sizeof(a->sun_path))
		return err_set(e, ENAMETOOLONG,
			"socket path '%s' must have 1 to %zu characters", path,
			sizeof(a->sun_path) - 1);
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	memcpy(a->sun_path, path, n);
	return 0;
}

static int link_socket(int *fd, struct err *e)
{
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return *fd < 0 ? err_sys(e, errno, "cannot create a socket") : 0;
}

int link_connect(const char *path, int *fd, struct err *e)
{
	struct sockaddr_un a;
	int code, ret = link_address(path, &a, e);

	if (ret)
		return ret;
	ret = link_socket(fd, e);
	if (ret)
		return ret;
	if (!connect(*fd, (struct sockaddr *)&a, sizeof(a)))
		return 0;
	code = errno;
	fd_close(fd);
	return err_sys(e, code,
		"cannot connect to '%s' (is tandem-npu --listen running?)",
		path);
}

/* Remove the socket at `path` if no process listens on it. A file of any other
 * type is not removed. */
static int unlink_stale(const char *path, struct err *e)
{
	struct stat st;
	int fd, ret;

	if (lstat(path, &st))
		return err_sys(e, errno, "cannot stat '%s'", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, EADDRINUSE,
			"'%s' exists and is not a socket; choose another path",
			path);
	ret = link_connect(path, &fd, NULL);
	if (!ret)
		fd_close(&fd);
	if (ret != -ECONNREFUSED)
		return err_set(e, EADDRINUSE,
			"another process listens at '%s'; stop it or choose "
			"another path",
			path);
	if (unlink(path))
		return err_sys(
			e, errno, "cannot remove the old socket '%s'", path);
	return 0;
}

int link_listen(const char *path, int *fd, struct err *e)
{
	struct sockaddr_un a;
	int ret = link_socket(fd, e);

	if (ret)
		return ret;
	if ((ret = link_address(path, &a, e)))
		goto fail;
	/* Call fchmod before bind, so that the path never has wider
	 * permissions. */
	if (fchmod(*fd, 0600)) {
		ret = err_sys(e, errno, "cannot restrict '%s'", path);
		goto fail;
	}
	ret = bind(*fd, (struct sockaddr *)&a, sizeof(a));
	if (ret && errno == EADDRINUSE) {
		if ((ret = unlink_stale(path, e)))
			goto fail;
		ret = bind(*fd, (struct sockaddr *)&a, sizeof(a));
	}
	if (ret || listen(*fd, 1)) {
		ret = err_sys(e, errno, "cannot listen at '%s'", path);
		goto fail;
	}
	return 0;
fail:
	fd_close(fd);
	return ret;
}

int link_accept(int listen_fd, int *fd, struct err *e)
{
	*fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (*fd < 0)
		return err_sys(e, errno, "cannot accept a connection");
	return 0;
}

pid_t link_peer_pid(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return 0;
	/* For a socket pair the kernel reports its creator, which is this
	 * process. */
	return cred.pid == getpid() ? 0 : cred.pid;
}

int link_check_user(int fd, struct err *e)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return err_sys(
			e, errno, "cannot find the user of the other process");
	if (cred.uid == geteuid())
		return 0;
	return err_set(e, EPERM,
		"the process at the other end belongs to user %u, this one "
		"to user %u; run host and device as the same user",
		(unsigned)cred.uid, (unsigned)geteuid());
}

/* ---- messages ------------------------------------------------------------ */

union control {
	struct cmsghdr align;
	char buf[CMSG_SPACE(sizeof(int) * LINK_MAX_FDS)];
};

static bool is_gone(int code)
{
	return code == EPIPE || code == ECONNRESET || code == ENOTCONN;
}

static int wait_ready(int fd, short events, int timeout_ms)
{
	uint64_t end = clock_ns() + (uint64_t)timeout_ms * 1000000u;
	struct pollfd p = { fd, events, 0 };

	for (;;) {
		int n = poll(&p, 1, timeout_ms);
		uint64_t now;

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (timeout_ms < 0)
			continue;
		now = clock_ns();
		if (now >= end)
			return -EAGAIN;
		timeout_ms = (int)((end - now) / 1000000u) + 1;
	}
}

int link_send(int fd, const void *msg, size_t len, const int *fds,
	unsigned n_fds, struct err *e)
{
	union control c = { 0 };
	struct iovec iov = { .iov_len = len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int ret;

	assert(len && len <= LINK_MAX_MSG && n_fds <= LINK_MAX_FDS);
	/* sendmsg only reads *msg; memcpy removes the const */
	memcpy(&iov.iov_base, &msg, sizeof(msg));
	if (n_fds) {
		m.msg_control = c.buf;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c.align.cmsg_level = SOL_SOCKET;
		c.align.cmsg_type = SCM_RIGHTS;
		c.align.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(&c.align), fds, sizeof(int) * n_fds);
	}
	/* Do not block: a peer that does not read must not stop this
	 * process. */
	while (sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		if (errno == EINTR)
			continue;
		if (is_gone(errno))
			return err_set(e, EPIPE,
				"the other process closed the connection");
		if (errno != EAGAIN)
			return err_sys(e, errno, "cannot send a message");
		ret = wait_ready(fd, POLLOUT, SEND_TIMEOUT_MS);
		if (ret)
			return err_set(e, ETIMEDOUT,
				"the other process has not read its socket for "
				"%d s",
				SEND_TIMEOUT_MS / 1000);
	}
	return 0;
}

/* Copy up to `max` descriptors of a message to fds, and close the rest. Returns
 * the number of descriptors in the message. */
static unsigned take_fds(struct msghdr *m, int *fds, unsigned max)
{
	unsigned total = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++, total++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (total < max)
				fds[total] = fd;
			else
				fd_close(&fd);
		}
	}
	return total;
}

int link_recv(int fd, void *msg, size_t cap, size_t *len, int *fds,
	unsigned max_fds, unsigned *n_fds, int timeout_ms, struct err *e)
{
	union control c;
	struct iovec iov = { .iov_base = msg, .iov_len = cap };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	bool reset = false, lost;
	unsigned total;
	ssize_t n;
	int ret;

	*n_fds = 0;
	for (;;) {
		m.msg_control = c.buf;
		m.msg_controllen = sizeof(c.buf);
		n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n >= 0)
			break;
		if (errno == EINTR)
			continue;
		/* If the peer exited without reading this process's message,
		 * recvmsg fails once with ECONNRESET, and then returns the
		 * messages that the peer had sent. */
		if (errno == ECONNRESET && !reset) {
			reset = true;
			continue;
		}
		if (is_gone(errno))
			return err_set(e, EPIPE,
				"the other process closed the connection");
		if (errno != EAGAIN)
			return err_sys(e, errno, "cannot receive a message");
		ret = timeout_ms ? wait_ready(fd, POLLIN, timeout_ms) : -EAGAIN;
		if (ret == -EAGAIN)
			return err_set(e, EAGAIN, "no message within %d ms",
				timeout_ms);
		if (ret)
			return err_sys(e, -ret, "cannot wait for a message");
	}
	*len = (size_t)n;
	total = take_fds(&m, fds, max_fds);
	lost = m.msg_flags & MSG_CTRUNC && total < LINK_MAX_FDS;
	if (!(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && total <= max_fds) {
		*n_fds = total;
		if (n)
			return 0;
	}
	for (unsigned i = 0; i < total && i < max_fds; i++)
		fd_close(&fds[i]);
	/* The descriptor is missing although c.buf had room for it: this
	 * process has too many open files. */
	if (lost)
		return err_set(e, EMFILE,
			"a file descriptor that the other process sent did not "
			"arrive, probably because this process has too many "
			"open files (see ulimit -n)");
	if (!n && !total)
		return err_set(
			e, EPIPE, "the other process closed the connection");
	return err_set(e, EPROTO,
		"the message of the other process is empty, longer than %zu "
		"bytes, or has more than %u descriptors",
		cap, max_fds);
}

int link_hung_up(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}
