#include "host/serve/engines.h"

#include "base/checked.h"
#include "host/serve/server_impl.h"

#include <string.h>

int engines_find(struct server *s, const struct api_request *request,
	struct engine **out, struct fault *f)
{
	const struct engine_offer *o = &s->engine->offer;
	const struct {
		const char *param, *said, *is;
	} names[] = {
		{ "method", request->method, o->method },
		{ "draft", request->draft, o->draft },
		{ "clock", request->clock, o->clock },
		{ "precision", request->precision, o->precision },
	};

	if (request->model && strcmp(request->model, o->model) != 0)
		return fault_set(f, 404, "model_not_found", "model",
			"there is no model '%s'; this server has '%s'",
			request->model, o->model);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (names[i].said &&
			(!names[i].is || strcmp(names[i].said, names[i].is)))
			return fault_set(f, 400, "not_offered", names[i].param,
				"this server was started with %s '%s', not "
				"'%s'",
				names[i].param,
				names[i].is ? names[i].is : "none",
				names[i].said);
	*out = s->engine;
	return 0;
}
