#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -code;
	e->code = -code;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return -code;
}

int err_sys(struct err *e, int code, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(e, code, "%s: %s", text, strerror(code));
}

int err_in(struct err *e, const char *fmt, ...)
{
	char was[ERR_TEXT_MAX], text[ERR_TEXT_MAX];
	va_list ap;

	if (!e)
		return -EINVAL;
	memcpy(was, e->text, sizeof(was));
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(e, -e->code, "%s: %s", text, was);
}

void err_plain(char *text)
{
	for (char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
}
