#include "device/fault.h"

#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int parse_count(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno || end == text || *end || !*out ? -EINVAL : 0;
}

/* What is behind the verb: nothing, :BUFFER or :BUFFER#N. */
static int parse_drop(
	struct fault *f, enum fault_upkeep upkeep, const char *rest)
{
	const char *name = rest + 1, *hash = strchr(rest, '#');
	size_t len;

	f->drop = upkeep;
	if (!*rest)
		return 0;
	if (*rest != ':')
		return -EINVAL;
	len = hash ? (size_t)(hash - name) : strlen(name);
	if (!len || len >= sizeof(f->buffer))
		return -EINVAL;
	memcpy(f->buffer, name, len);
	return hash ? parse_count(hash + 1, &f->nth) : 0;
}

/* The rest of `text` behind `prefix`, or NULL. */
static const char *after(const char *text, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(text, prefix, n) ? NULL : text + n;
}

int fault_parse(struct fault *f, const char *text, struct err *e)
{
	const char *rest;
	int ret = -EINVAL;

	memset(f, 0, sizeof(*f));
	if (!text || !*text)
		return 0;
	if ((rest = after(text, "drop-invalidate"))) {
		ret = parse_drop(f, FAULT_INVALIDATE, rest);
	} else if ((rest = after(text, "drop-clean"))) {
		ret = parse_drop(f, FAULT_CLEAN, rest);
	} else if ((rest = after(text, "drop-word"))) {
		ret = parse_drop(f, FAULT_WORD, rest);
	} else if ((rest = after(text, "die-after:"))) {
		ret = parse_count(rest, &f->die_after);
	} else if ((rest = after(text, "hang-after:"))) {
		ret = parse_count(rest, &f->hang_after);
	}
	if (ret)
		return err_set(e, EINVAL,
			"fault '%s': known are drop-invalidate[:BUFFER[#N]], "
			"drop-clean and drop-word likewise, die-after:N and hang-after:N",
			text);
	return 0;
}

bool fault_drops(struct fault *f, enum fault_upkeep upkeep, const char *buffer)
{
	if (f->drop != upkeep || (f->buffer[0] && strcmp(f->buffer, buffer)))
		return false;
	f->asked++;
	return !f->nth || f->asked == f->nth;
}

void fault_request(struct fault *f)
{
	f->requests++;
	if (f->requests == f->die_after)
		raise(SIGKILL);
	if (f->requests == f->hang_after)
		for (;;)
			pause();
}
