#include "host/serve/client_id.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* Returns the 64-bit FNV-1a hash of the bytes. */
uint64_t client_of_bytes(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint64_t h = 0xcbf29ce484222325;

	while (n--)
		h = (h ^ *p++) * 0x100000001b3;
	return h;
}

uint64_t client_of_socket(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage room;
	} a = { 0 };
	socklen_t size = sizeof(a);
	const unsigned char *v6 = a.v6.sin6_addr.s6_addr;
	struct ucred peer = { 0 };

	if (getpeername(fd, &a.any, &size))
		return 0;
	switch (a.any.sa_family) {
	case AF_INET:
		return client_of_bytes(&a.v4.sin_addr, sizeof(a.v4.sin_addr));
	case AF_INET6:
		/* Hash only the first 8 bytes of an IPv6 address: a machine
		 * usually has a block of 2^64 addresses and may use many of
		 * them at the same time. */
		return IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr)
			? client_of_bytes(v6 + 12, 4)
			: client_of_bytes(v6, 8);
	default:
		size = sizeof(peer);
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
		return client_of_bytes(&peer.pid, sizeof(peer.pid));
	}
}
