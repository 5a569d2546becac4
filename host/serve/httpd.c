#include "host/serve/httpd.h"

#include "base/err.h"

#include <dlfcn.h>
#include <errno.h>

#define LIBRARY "libmicrohttpd.so.12" /* of libmicrohttpd 0.9.34 to 1 */

struct httpd httpd;

int httpd_load(struct err *e)
{
	void *library = dlopen(LIBRARY, RTLD_NOW);

	if (!library)
		return err_set(e, ENOENT,
			"cannot load libmicrohttpd (is it installed?): %s",
			dlerror());
#define X(name)                                               \
	*(void **)&httpd.name = dlsym(library, "MHD_" #name); \
	if (!httpd.name)                                      \
		return err_set(e, ENOENT, "%s lacks MHD_" #name, LIBRARY);
	HTTPD_FUNCTIONS(X)
#undef X
	return 0;
}
