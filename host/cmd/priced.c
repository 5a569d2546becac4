#include "host/cmd/priced.h"

#include "host/api/decoder.h"
#include "host/cmd/json_text.h"

void priced_text(const struct decoder *d, FILE *f)
{
	char text[DECODER_PRICED_AS];

	decoder_priced_as(d, text);
	if (*text)
		fprintf(f, "priced as %s\n", text);
}

void put_priced(json_t *o, const struct decoder *d)
{
	char text[DECODER_PRICED_AS];

	decoder_priced_as(d, text);
	if (*text)
		json_object_set_new(o, "priced_as", json_ctext(text));
}
