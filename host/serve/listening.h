/*
 * The listening socket: a TCP address, or a Unix socket that only its own user
 * can open. An address that other machines can reach is refused if no key
 * protects it. The socket file is removed at the end.
 */
#ifndef HOST_SERVE_LISTENING_H
#define HOST_SERVE_LISTENING_H

#include <stdbool.h>
#include <sys/un.h>

struct err;

struct listening {
	int fd;
	bool loopback; /* TCP on a loopback address */
	char url[160]; /* "http://127.0.0.1:8080", "unix:/run/x" */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "": TCP */
};

/*
 * `where` is HOST:PORT (port 0: any free one) or unix:PATH; a socket file that
 * nobody listens on is replaced. `open_to_all` permits other than loopback
 * addresses. -errno with a message; then there is nothing to close.
 */
int listening_open(
	struct listening *, const char *where, bool open_to_all, struct err *);
void listening_close(struct listening *);

#endif
