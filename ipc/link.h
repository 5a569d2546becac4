/*
 * The Unix socket between host and device (SOCK_SEQPACKET): whole messages
 * with file descriptors. Descriptors that arrive are close-on-exec and the
 * receiver's; those sent stay the sender's.
 */
#ifndef IPC_LINK_H
#define IPC_LINK_H

#include <stddef.h>
#include <sys/types.h>

struct err;

#define LINK_MAX_FDS 4
#define LINK_MAX_MSG 512

/* Two connected ends, both close-on-exec. */
int link_pair(int fd[2], struct err *);

/*
 * Listen at `path`: a socket left behind by a dead process is replaced, a
 * live one is refused with -EADDRINUSE. *fd is the caller's, and so is
 * unlinking `path`.
 */
int link_listen(const char *path, int *fd, struct err *);
int link_accept(int listen_fd, int *fd, struct err *);
int link_connect(const char *path, int *fd, struct err *);

/* The process at the other end (SO_PEERCRED), 0 when not known. */
pid_t link_peer_pid(int fd);

/* 0, or -EPERM when the process at the other end is another user's: what goes
 * over a link is memory, and a path in /tmp says nothing of who listens. */
int link_check_user(int fd, struct err *);

/* 0, or -EPIPE when the peer is gone, or another -errno. */
int link_send(int fd, const void *msg, size_t len, const int *fds,
	unsigned n_fds, struct err *);

/*
 * One message into msg[cap]: 0 with *len and *n_fds; -EAGAIN when none came
 * within timeout_ms (0: do not wait, -1: for ever); -EPIPE when the peer is
 * gone; -EPROTO when it was too long or carried more than max_fds
 * descriptors (which are then closed); -EMFILE when this process may not
 * have as many more as it carried, with the message but no descriptor.
 */
int link_recv(int fd, void *msg, size_t cap, size_t *len, int *fds,
	unsigned max_fds, unsigned *n_fds, int timeout_ms, struct err *);

/* True when the peer has hung up. */
int link_hung_up(int fd);

#endif
