/*
 * The functions of libmicrohttpd that the server uses. The library is loaded
 * only when a server is opened (server.c): with the eleven libraries that it
 * needs, loading it takes as long as loading all other libraries of a command.
 */
#ifndef HOST_SERVE_HTTPD_H
#define HOST_SERVE_HTTPD_H

#include <microhttpd.h>

struct err;

#define HTTPD_FUNCTIONS(X)               \
	X(add_response_header)           \
	X(create_response_from_buffer)   \
	X(create_response_from_callback) \
	X(destroy_response)              \
	X(get_connection_info)           \
	X(get_connection_values)         \
	X(http_unescape)                 \
	X(lookup_connection_value)       \
	X(queue_response)                \
	X(quiesce_daemon)                \
	X(resume_connection)             \
	X(set_connection_option)         \
	X(start_daemon)                  \
	X(stop_daemon)                   \
	X(suspend_connection)

/* One member for each function; for example, httpd.start_daemon points to
 * MHD_start_daemon. */
extern struct httpd {
#define X(name) __typeof__(MHD_##name) *name;
	HTTPD_FUNCTIONS(X)
#undef X
} httpd;

/* Load the library and set the members of httpd. Call this function before
 * httpd is used; it may be called more than once. Returns 0, or a negative
 * errno with a message. */
int httpd_load(struct err *);

#endif
