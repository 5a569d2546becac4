#include "host/cmd/priced.h"

#include "host/api/report.h"
#include "host/cmd/json_text.h"

void priced_text(const struct tandem_report *r, FILE *f)
{
	if (*r->priced_as)
		fprintf(f, "priced as %s\n", r->priced_as);
}

void put_priced(json_t *o, const struct tandem_report *r)
{
	if (*r->priced_as)
		json_object_set_new(o, "priced_as", json_ctext(r->priced_as));
}
