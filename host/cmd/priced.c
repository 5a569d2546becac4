#include "host/cmd/priced.h"

#include "base/strbuf.h"
#include "host/api/decoder.h"
#include "host/cmd/json_text.h"

void priced_text(const struct decoder *d, FILE *f)
{
	struct strbuf text = STRBUF_INIT;

	decoder_priced_as(d, &text);
	if (text.len)
		fprintf(f, "priced as %s\n", text.data);
	strbuf_release(&text);
}

void put_priced(json_t *o, const struct decoder *d)
{
	struct strbuf text = STRBUF_INIT;

	decoder_priced_as(d, &text);
	if (text.len)
		json_object_set_new(o, "priced_as", json_ctext(text.data));
	strbuf_release(&text);
}
