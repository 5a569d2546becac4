/*
 * The Unix socket between host and device (SOCK_SEQPACKET): whole messages
 * with file descriptors. Received descriptors are close-on-exec and belong to
 * the receiver; sent ones stay the sender's.
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
 * Listen at `path`: a socket that a dead process left is replaced; one with a
 * listener is refused with -EADDRINUSE. The caller closes *fd and unlinks
 * `path`.
 */
int link_listen(const char *path, int *fd, struct err *);
int link_accept(int listen_fd, int *fd, struct err *);
int link_connect(const char *path, int *fd, struct err *);

/* The process at the other end (SO_PEERCRED), 0: unknown. */
pid_t link_peer_pid(int fd);

/* 0, or -EPERM when the process at the other end belongs to another user: a
 * link passes memory, and anyone could listen at a path in /tmp. */
int link_check_user(int fd, struct err *);

/* 0, or -EPIPE when the peer is gone, or another -errno. */
int link_send(int fd, const void *msg, size_t len, const int *fds,
	unsigned n_fds, struct err *);

/*
 * Receive one message into msg[cap]: 0 with *len and *n_fds; -EAGAIN when none
 * arrived within timeout_ms (0: do not wait, -1: no limit); -EPIPE when the
 * peer is gone; -EPROTO when it was too long or had more than max_fds
 * descriptors (which are then closed); -EMFILE when its descriptors exceed the
 * limit of this process: then the message was received without descriptors.
 */
int link_recv(int fd, void *msg, size_t cap, size_t *len, int *fds,
	unsigned max_fds, unsigned *n_fds, int timeout_ms, struct err *);

/* True when the peer has hung up. */
int link_hung_up(int fd);

#endif
