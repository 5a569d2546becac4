/*
 * The engines of the server: which one a request names. Any thread may call.
 */
#ifndef HOST_SERVE_ENGINES_H
#define HOST_SERVE_ENGINES_H

struct api_request;
struct engine;
struct fault;
struct server;

/* Find the engine with the model, method and other settings that the request
 * names. Returns 0 and the engine, or a negative errno with *fault set. */
int engines_find(struct server *, const struct api_request *,
	struct engine **out, struct fault *);

#endif
