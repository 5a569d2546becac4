/*
 * Which engine a request chooses. The members `method`, `draft` and `options`
 * of the request select the decoding method and its options. Two requests
 * choose the same engine if the resulting options of the whole decoder are
 * equal, however the requests spell them. So a choice is a list of settings in
 * canonical spelling: all options of the decoder that differ from their
 * defaults, as in tandem_options.set ("method=chain", "draft-len=4"), ending
 * with NULL. Any thread may call.
 */
#ifndef HOST_SERVE_ENGINE_CHOICE_H
#define HOST_SERVE_ENGINE_CHOICE_H

#include "host/serve/engine.h"

struct opt_values;

/* The methods and options that a request may choose. All pointers are
 * borrowed. */
struct engine_menu {
	/* The server's own options of the decoder, as given at its start; NULL:
	 * the defaults. */
	const struct opt_values *values;
	/* Names of the methods that a request may choose, the server's own
	 * first; ends with NULL. NULL: a request may choose nothing. */
	const char *const *methods;
	/* The method, drafter, clock and precision of the server's own options;
	 * `model` is not used. */
	struct engine_offer own;
};

/*
 * Check the names in the request, and make the list of settings that the
 * request chooses. `request` is NULL for the server's own options. Returns 0
 * and sets *out to the list, or to NULL if the request names no other method
 * and drafter than the server's own and has no options. Otherwise returns a
 * negative errno with *fault set.
 */
int engine_choose(char ***out, const struct engine_menu *,
	const struct api_request *request, struct fault *);
void engine_choice_free(char **);

/* Get the method and drafter of a choice (a list of settings), and check that
 * the options of the choice can be combined. Returns 0 with *offer, whose
 * strings belong to the choice and to the menu, and whose `model` is NULL; or a
 * negative errno with *fault set. */
int engine_choice_check(char *const *choice, const struct engine_menu *,
	struct engine_offer *offer, struct fault *);

bool engine_choice_same(char *const *, char *const *);

/* Returns a JSON object with those settings of the choice that differ from the
 * server's own settings, such as {"method": "chain", "draft-len": "4"}; NULL if
 * there is no memory. */
json_t *engine_choice_json(char *const *choice, char *const *own);

#endif
