/*
 * The listening socket: a TCP address, or a Unix socket that only the server's
 * user can open. A TCP address that other machines can reach is refused unless
 * the caller permits it. listening_close removes the file of a Unix socket.
 */
#ifndef HOST_SERVE_LISTENING_H
#define HOST_SERVE_LISTENING_H

#include <stdbool.h>
#include <sys/un.h>

struct err;

struct listening {
	int fd;
	bool loopback; /* a TCP socket on a loopback address */
	char url[160]; /* such as "http://127.0.0.1:8080" or "unix:/run/x" */
	/* File of the Unix socket; "" for TCP. */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/*
 * Listen at `where`: HOST:PORT or unix:PATH. Port 0 chooses a free port. A
 * socket file at PATH that no process listens on is replaced. `open_to_all`
 * permits addresses that other machines can reach. Returns 0, or a negative
 * errno with a message; after an error there is nothing to close.
 */
int listening_open(
	struct listening *, const char *where, bool open_to_all, struct err *);
void listening_close(struct listening *);

#endif
