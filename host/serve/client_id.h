/*
 * A number for each client, by which the queue is fair (fair_queue.h): of its
 * API key, if keys are required; otherwise of its network address, of its
 * process at a Unix socket, or of its name on a bus. Programs of one machine
 * that use the network share an address, and count as one client. Two clients
 * with the same number, which is unlikely, would share their turns.
 */
#ifndef HOST_SERVE_CLIENT_ID_H
#define HOST_SERVE_CLIENT_ID_H

#include <stdint.h>

/* The number of a client with this key or name. */
uint64_t client_of_name(const char *);

/* The number of the client at the other end of a connected socket. */
uint64_t client_of_socket(int fd);

#endif
