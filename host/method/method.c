#include "host/method/method.h"

#include <string.h>

const struct method *const methods[] = {
	&method_autoregressive,
	&method_flash_ar,
	&method_llada,
	&method_chain,
	&method_specinfer,
	&method_opt_tree,
	&method_eagle2_tree,
	&method_edgellm,
	&method_lever,
	NULL,
};

const struct method *method_find(const char *name)
{
	for (size_t i = 0; methods[i]; i++)
		if (!strcmp(methods[i]->name, name))
			return methods[i];
	return NULL;
}
