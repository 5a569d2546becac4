#include "host/serve/listening.h"

#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 128

static int open_socket(int family, int *fd, struct err *e)
{
	*fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return *fd < 0 ? err_sys(e, errno, "cannot create a socket") : 0;
}

/* ---- a Unix socket ------------------------------------------------------- */

static int open_unix(struct listening *l, const char *path, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct stat st;
	int fd, ret;

	if (!*path || strlen(path) >= sizeof(a.sun_path))
		return err_set(e, EINVAL,
			"'%s' cannot be the path of a socket: it must have 1 "
			"to %zu bytes",
			path, sizeof(a.sun_path) - 1);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	/* Remove the socket file of a server that has ended; but fail if a
	 * process listens on the socket, or if the file is not a socket. */
	if (!lstat(path, &st)) {
		if (!S_ISSOCK(st.st_mode))
			return err_set(e, EEXIST,
				"'%s' exists and is not a socket", path);
		ret = open_socket(AF_UNIX, &fd, e);
		if (ret)
			return ret;
		ret = connect(fd, (const struct sockaddr *)&a, sizeof(a))
			? errno
			: 0;
		fd_close(&fd);
		if (!ret || ret == EAGAIN)
			return err_set(e, EADDRINUSE,
				"another program listens at '%s'; choose "
				"another path",
				path);
		if (unlink(path))
			return err_sys(e, errno, "cannot remove '%s'", path);
	}
	ret = open_socket(AF_UNIX, &l->fd, e);
	if (ret)
		return ret;
	/* Set the mode of the socket before bind(), which creates the file with
	 * this mode: so there is no moment at which other users can open the
	 * file. */
	if (fchmod(l->fd, 0600) ||
		bind(l->fd, (const struct sockaddr *)&a, sizeof(a)))
		return err_sys(e, errno, "cannot listen at '%s'", path);
	snprintf(l->path, sizeof(l->path), "%s", path);
	snprintf(l->url, sizeof(l->url), "unix:%s", path);
	return 0;
}

/* ---- TCP ----------------------------------------------------------------- */

/* Split "HOST:PORT" or "[HOST]:PORT": copy the host to `host`, which has `cap`
 * bytes, and point *port to the port. Returns 0 or -EINVAL. */
static int split(const char *where, char *host, size_t cap, const char **port)
{
	const char *colon = strrchr(where, ':'), *from = where;
	size_t n = colon ? (size_t)(colon - where) : 0;

	if (n >= 2 && where[0] == '[' && where[n - 1] == ']') {
		from++;
		n -= 2;
	} else if (n && memchr(where, ':', n)) {
		return -EINVAL;
	}
	if (!n || n >= cap || !colon[1])
		return -EINVAL;
	memcpy(host, from, n);
	host[n] = '\0';
	*port = colon + 1;
	return 0;
}

static int listen_at(struct listening *l, const struct addrinfo *i,
	const char *where, bool open_to_all, struct err *e)
{
	const struct sockaddr_in *in = (const void *)i->ai_addr;
	const struct sockaddr_in6 *in6 = (const void *)i->ai_addr;
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	char host[80], port[16];
	int yes = 1, ret;

	l->loopback = (i->ai_family == AF_INET &&
			      ntohl(in->sin_addr.s_addr) >> 24 == 127) ||
		(i->ai_family == AF_INET6 &&
			IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr));
	if (!l->loopback && !open_to_all)
		return err_set(e, EACCES,
			"other machines can reach '%s' and could use the "
			"server; require a key with --api-key-file, or allow "
			"this with --no-key",
			where);
	ret = open_socket(i->ai_family, &l->fd, e);
	if (ret)
		return ret;
	setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(l->fd, i->ai_addr, i->ai_addrlen))
		return err_sys(e, errno, "cannot listen at '%s'", where);
	if (getsockname(l->fd, (struct sockaddr *)&a, &len) ||
		getnameinfo((struct sockaddr *)&a, len, host, sizeof(host),
			port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		return err_set(e, EIO, "cannot find the server's address");
	snprintf(l->url, sizeof(l->url),
		a.ss_family == AF_INET6 ? "http://[%s]:%s" : "http://%s:%s",
		host, port);
	return 0;
}

static int open_tcp(
	struct listening *l, const char *where, bool open_to_all, struct err *e)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE };
	struct addrinfo *found;
	const char *port;
	char host[128];
	int ret;

	if (split(where, host, sizeof(host), &port))
		return err_set(e, EINVAL,
			"'%s' is neither HOST:PORT, like 127.0.0.1:8080, nor "
			"unix:PATH",
			where);
	ret = getaddrinfo(host, port, &hints, &found);
	if (ret)
		return err_set(e, EINVAL, "'%s' is not an address: %s", where,
			gai_strerror(ret));
	ret = listen_at(l, found, where, open_to_all, e);
	freeaddrinfo(found);
	return ret;
}

/* ---- opening and closing ------------------------------------------------- */

int listening_open(
	struct listening *l, const char *where, bool open_to_all, struct err *e)
{
	int ret;

	*l = (struct listening){ .fd = -1 };
	ret = strncmp(where, "unix:", 5) ? open_tcp(l, where, open_to_all, e)
					 : open_unix(l, where + 5, e);
	if (!ret && listen(l->fd, BACKLOG))
		ret = err_sys(e, errno, "cannot listen at '%s'", where);
	if (ret)
		listening_close(l);
	return ret;
}

void listening_close(struct listening *l)
{
	fd_close(&l->fd);
	if (*l->path)
		unlink(l->path);
	*l->path = '\0';
}
