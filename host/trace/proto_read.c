#include "host/trace/proto_read.h"

#include <errno.h>
#include <string.h>

static int take_varint(struct proto_in *in, uint64_t *out)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte;

		if (!in->left)
			return -EBADMSG;
		byte = *in->at++;
		in->left--;
		if (shift == 63 && byte > 1)
			return -EBADMSG;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*out = v;
			return 0;
		}
	}
	return -EBADMSG;
}

static int take_fixed(struct proto_in *in, unsigned bytes, uint64_t *out)
{
	uint64_t v = 0;

	if (in->left < bytes)
		return -EBADMSG;
	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t)in->at[i] << 8 * i;
	in->at += bytes;
	in->left -= bytes;
	*out = v;
	return 0;
}

int proto_next(struct proto_in *in, struct proto_field *out)
{
	uint64_t tag;
	int ret;

	*out = (struct proto_field){ 0 };
	if (!in->left)
		return 0;
	ret = take_varint(in, &tag);
	if (ret)
		return ret;
	if (!(tag >> 3) || tag >> 32)
		return -EBADMSG;
	out->number = (uint32_t)(tag >> 3);
	switch (tag & 7) {
	case 0:
		ret = take_varint(in, &out->value);
		break;
	case 1:
		ret = take_fixed(in, 8, &out->value);
		break;
	case 2:
		ret = take_varint(in, &out->value);
		if (ret)
			return ret;
		out->bytes.at = in->at;
		out->bytes.left =
			out->value < in->left ? (size_t)out->value : in->left;
		in->at += out->bytes.left;
		in->left -= out->bytes.left;
		return out->bytes.left < out->value ? -ENODATA : 1;
	case 5:
		ret = take_fixed(in, 4, &out->value);
		break;
	default:
		ret = -EBADMSG;
	}
	return ret ? ret : 1;
}
