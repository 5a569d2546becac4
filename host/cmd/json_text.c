#include "host/cmd/json_text.h"

json_t *json_text(struct gguf_str s)
{
	json_t *text = json_stringn(s.data, s.len);
	char shown[1024];

	return text ? text : json_string(gguf_show(s, shown, sizeof(shown)));
}
