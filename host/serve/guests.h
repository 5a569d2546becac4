/*
 * Connections, from the first byte to the last: whoever sends a request a byte
 * at a time is never idle, and is shown out here when it takes too long. Of
 * libmicrohttpd's thread, but for guests_show_out; the lock guards the list.
 */
#ifndef HOST_SERVE_GUESTS_H
#define HOST_SERVE_GUESTS_H

#include "host/serve/httpd.h"

#include <stdbool.h>
#include <stdint.h>

struct server;

struct guest {
	int fd;
	bool answered;     /* its request is whole, and is being answered */
	uint64_t since_ns; /* it was not */
	struct guest *prev, *next;
};

/* What libmicrohttpd calls, with the server as argument. */
void guests_notify(void *server, struct MHD_Connection *, void **guest,
	enum MHD_ConnectionNotificationCode);

/* A connection's request is whole and will be answered; or it was. */
void guest_answered(struct server *, struct MHD_Connection *, bool answered);

/* Who has owed a request for so long; with the lock held. */
void guests_show_out(struct server *, uint64_t now_ns, uint64_t after_ns);

#endif
