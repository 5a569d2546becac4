/*
 * A number that identifies a client, so that the queue can give each client a
 * fair share (fair_queue.h). The number is a hash of the client's API key, if
 * keys are required; otherwise of the client's network address, of the process
 * id of a client at a Unix socket, or of the client's name on a D-Bus bus. All
 * programs of one machine that use the network count as one client, because
 * they share an address. Two clients whose hashes are equal, which is unlikely,
 * share the turns of one client in the queue.
 */
#ifndef HOST_SERVE_CLIENT_ID_H
#define HOST_SERVE_CLIENT_ID_H

#include <stddef.h>
#include <stdint.h>

/* The number of a client with this key, name or address. */
uint64_t client_of_bytes(const void *, size_t n);

/* The number of the client at the other end of a connected socket. */
uint64_t client_of_socket(int fd);

#endif
