/*
 * Where the server listens: an address of TCP, or a Unix socket that only its
 * own user can open. Refuses an address that others reach where nothing keeps
 * them out. The socket file is the listening's, and goes with it.
 */
#ifndef HOST_SERVE_LISTENING_H
#define HOST_SERVE_LISTENING_H

#include <stdbool.h>
#include <sys/un.h>

struct err;

struct listening {
	int fd;
	bool loopback; /* of TCP, and only this machine reaches it */
	char url[160]; /* "http://127.0.0.1:8080", "unix:/run/x" */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "": TCP */
};

/*
 * `where` is HOST:PORT (of port 0 one is chosen) or unix:PATH; a socket that
 * nobody listens at any more is replaced. `open_to_all` permits an address that
 * is not a loopback's. -errno with a sentence; then there is nothing to close.
 */
int listening_open(
	struct listening *, const char *where, bool open_to_all, struct err *);
void listening_close(struct listening *);

#endif
