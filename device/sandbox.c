#include "device/sandbox.h"

#include "base/checked.h"
#include "base/err.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

/* Builds with a sanitizer have no sandbox, because the sanitizer's runtime
 * makes system calls that the filter forbids. gcc defines a macro for a
 * sanitizer; clang has a feature test. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
	__has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const int allowed[] = {
	/* Calls that map the buffers whose descriptors the host sends, and
	 * allocate memory. */
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(brk),
	SCMP_SYS(fstat),
	SCMP_SYS(newfstatat), /* fstat in newer C libraries */
	SCMP_SYS(fstatfs),
	SCMP_SYS(fcntl),
	SCMP_SYS(close),
	SCMP_SYS(pread64), /* for DMA from the extended region */
	/* Calls for the link, the doorbells, and messages on standard error. */
	SCMP_SYS(read),
	SCMP_SYS(preadv2),
	SCMP_SYS(write),
	SCMP_SYS(writev), /* used by the C library */
	SCMP_SYS(recvmsg),
	SCMP_SYS(recvfrom),
	SCMP_SYS(sendmsg),
	SCMP_SYS(sendto),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	/* Calls for threads and signals. */
	SCMP_SYS(futex),
	SCMP_SYS(sched_yield),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(gettid),
	SCMP_SYS(getpid),
	/* Calls for the time, if the vDSO does not provide it. */
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep),
	/* pause: used by the fault `hang`; getrandom: by the allocator */
	SCMP_SYS(pause),
	SCMP_SYS(getrandom),
};

int sandbox_enter(struct err *e)
{
	scmp_filter_ctx ctx;
	int ret;

	if (SANITIZED)
		return 0;
	ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (!ctx)
		return err_set(e, ENOMEM,
			"cannot make a seccomp filter: the system refuses it, "
			"as valgrind does, or there is no memory "
			"(TANDEM_NO_SECCOMP=1 runs without it)");
	ret = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	for (size_t i = 0; i < ARRAY_LEN(allowed) && !ret; i++)
		ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed[i], 0);
	/* Allow mmap, but not for executable memory. */
	if (!ret)
		ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (!ret)
		ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect),
			1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	/* Allow signals to the process itself: abort() sends one, and a process
	 * that has caught a signal ends by sending itself the same signal. */
	if (!ret)
		ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
			SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	if (!ret)
		ret = seccomp_load(ctx);
	seccomp_release(ctx);
	if (ret)
		return err_sys(e, -ret,
			"cannot enter the seccomp filter (TANDEM_NO_SECCOMP=1 "
			"runs without it)");
	return 0;
}
