#include "host/draft/draft_kind.h"

#include <string.h>

/* The test program tandem-echo (make tests) has additional kinds of drafters.
 * When it is compiled, the macro MORE_DRAFT_KINDS_ROW names the header that
 * lists them. */
#ifdef MORE_DRAFT_KINDS_ROW
#include MORE_DRAFT_KINDS_ROW
#else
#define MORE_DRAFT_KINDS
#endif

#define DRAFT_KIND_AT(kind) &draft_kind_##kind,

const struct draft_kind *const draft_kinds[] = {
	DRAFT_KINDS(DRAFT_KIND_AT) MORE_DRAFT_KINDS NULL,
};

const struct draft_kind *draft_kind_named(const char *said, size_t *len)
{
	for (size_t i = 0; draft_kinds[i]; i++) {
		const struct draft_kind *k = draft_kinds[i];
		size_t n = k->name ? strlen(k->name) : 0;

		if (!n || strncmp(said, k->name, n))
			continue;
		if (k->name[n - 1] != ':' && said[n] && said[n] != '+')
			continue;
		*len = n + strcspn(said + n, "+");
		return k;
	}
	return NULL;
}

const struct draft_kind *draft_kind_of_file(bool on_device)
{
	size_t i = 0;

	while (draft_kinds[i]->name || draft_kinds[i]->on_device != on_device)
		i++;
	return draft_kinds[i];
}
