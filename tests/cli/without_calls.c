/*
 * Runs a command with some system calls failing, for tests/cli/environment.sh:
 *
 *   without_calls ERRNO CALL... -- COMMAND...
 *
 * The system calls CALL fail with ERRNO, as on an older kernel (ENOSYS) or
 * where an administrator forbids them (EPERM). All processes that the command
 * starts inherit the filter.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
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
