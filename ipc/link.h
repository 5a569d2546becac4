/*
 * The Unix socket between host and device (SOCK_SEQPACKET), which transfers
 * whole messages with file descriptors. Received descriptors are close-on-exec
 * and belong to the receiver; the sender keeps the descriptors that it sends.
 */
#ifndef IPC_LINK_H
#define IPC_LINK_H

#include <stddef.h>
#include <sys/types.h>

struct err;

#define LINK_MAX_FDS 4
#define LINK_MAX_MSG 512

/* Create two connected sockets, both close-on-exec. Returns 0 or a negative
 * errno. */
int link_pair(int fd[2], struct err *);

/*
 * Listen at `path`. A socket that a dead process left at `path` is replaced. If
 * a process still listens on that socket, the call returns -EADDRINUSE. The
 * caller closes *fd and unlinks `path`.
 */
int link_listen(const char *path, int *fd, struct err *);
int link_accept(int listen_fd, int *fd, struct err *);
int link_connect(const char *path, int *fd, struct err *);

/* The pid of the process at the other end (SO_PEERCRED), 0 if unknown. */
pid_t link_peer_pid(int fd);

/*
 * Returns 0, or -EPERM if the process at the other end belongs to another user.
 * The check is needed because a link passes descriptors of shared memory, and
 * any user could listen at a path in /tmp.
 */
int link_check_user(int fd, struct err *);

/* Send one message with file descriptors. Returns 0, -EPIPE if the peer has
 * closed its end, or another negative errno. */
int link_send(int fd, const void *msg, size_t len, const int *fds,
	unsigned n_fds, struct err *);

/*
 * Receive one message into msg[cap]. timeout_ms 0 does not wait, and -1 waits
 * without limit. Returns 0 with *len and *n_fds; -EAGAIN if no message arrived
 * within timeout_ms; -EPIPE if the peer has closed its end; -EPROTO if the
 * message was too long or had more than max_fds descriptors (which are then
 * closed); or -EMFILE if this process has too many open files to receive the
 * descriptors: the message was then received without them.
 */
int link_recv(int fd, void *msg, size_t cap, size_t *len, int *fds,
	unsigned max_fds, unsigned *n_fds, int timeout_ms, struct err *);

/* Whether the peer has closed its end. */
int link_hung_up(int fd);

#endif
