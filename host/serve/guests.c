#include "host/serve/guests.h"

#include "base/clock.h"
#include "host/serve/server_impl.h"

#include <stdlib.h>
#include <sys/socket.h>

static void come(
	struct server *s, struct MHD_Connection *connection, void **guest)
{
	const union MHD_ConnectionInfo *fd = httpd.get_connection_info(
		connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct guest *g = calloc(1, sizeof(*g));

	/* Without memory for it the connection is only bound by --idle. */
	if (!g || !fd) {
		free(g);
		return;
	}
	g->fd = fd->connect_fd;
	g->since_ns = clock_ns();
	*guest = g;
	answering_lock(s->answering);
	g->next = s->guests;
	if (g->next)
		g->next->prev = g;
	s->guests = g;
	answering_unlock(s->answering);
}

static void go(struct server *s, struct guest *g)
{
	answering_lock(s->answering);
	if (g->next)
		g->next->prev = g->prev;
	*(g->prev ? &g->prev->next : &s->guests) = g->next;
	answering_unlock(s->answering);
	free(g);
}

void guests_notify(void *server, struct MHD_Connection *connection,
	void **guest, enum MHD_ConnectionNotificationCode what)
{
	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		come(server, connection, guest);
	else if (*guest)
		go(server, *guest);
}

void guest_answered(
	struct server *s, struct MHD_Connection *connection, bool answered)
{
	const union MHD_ConnectionInfo *info = httpd.get_connection_info(
		connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct guest *g = info ? info->socket_context : NULL;

	if (!g)
		return;
	answering_lock(s->answering);
	g->answered = answered;
	g->since_ns = clock_ns();
	answering_unlock(s->answering);
}

/* The other thread finds the connection at its end, and closes it. */
void guests_show_out(struct server *s, uint64_t now, uint64_t after)
{
	for (const struct guest *g = s->guests; g; g = g->next)
		if (!g->answered && now > g->since_ns + after)
			shutdown(g->fd, SHUT_RDWR);
}
