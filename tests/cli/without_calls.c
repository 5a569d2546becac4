/*
 * without_calls ERRNO CALL... -- COMMAND...: run a command in a system where
 * these calls fail with that code, as an older kernel's do (ENOSYS) or one
 * whose administrator forbids them (EPERM). The filter is inherited by all that
 * the command starts. For tests/cli/environment.sh.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int code_of(const char *name)
{
	if (!strcmp(name, "ENOSYS"))
		return ENOSYS;
	if (!strcmp(name, "EPERM"))
		return EPERM;
	return 0;
}

int main(int argc, char **argv)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int code = argc > 1 ? code_of(argv[1]) : 0, i = 2;

	if (!ctx || !code)
		return 2;
	for (; i < argc && strcmp(argv[i], "--"); i++) {
		int call = seccomp_syscall_resolve_name(argv[i]);

		if (call == __NR_SCMP_ERROR ||
			seccomp_rule_add(
				ctx, SCMP_ACT_ERRNO((unsigned)code), call, 0))
			return 2;
	}
	if (i + 1 >= argc || seccomp_load(ctx))
		return 2;
	seccomp_release(ctx);
	execvp(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return 127;
}
