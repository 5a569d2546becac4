/* Probes of kernel features to which access may be denied: futexes, pidfds,
 * seccomp, tracing and performance counters. */
#include "host/doctor/probe.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void probe_futex(struct finding *f)
{
	uint32_t *word;
	int fd;

	finding_means(f,
		"With --doorbell poll, a process that waits first spins and then "
		"sleeps on a futex in the shared control memory.");
	word = probe_memfd(4096, 0, &fd);
	if (!word) {
		finding_is(f, PROBE_MISSING,
			"not tried: shared memory cannot be created");
		finding_fix(f, "tandem doctor   # look at memfd first");
		return;
	}
	/* FUTEX_PRIVATE must not be used, because different processes share the
	 * word through a file. */
	if (syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0) < 0) {
		finding_is(f, PROBE_MISSING, "futex on shared memory: %s",
			strerror(errno));
		finding_fix(f, "grep Seccomp /proc/self/status");
	} else {
		finding_is(f, PROBE_OK, "futex on shared memory works");
	}
	munmap(word, 4096);
	close(fd);
}

void probe_pidfd(struct finding *f)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	finding_means(f,
		"The host watches the device through a pidfd, so that it "
		"notices a killed device even while a child of the device "
		"keeps the socket open.");
	if (fd < 0) {
		finding_is(f, PROBE_LIMITED, "pidfd_open: %s", strerror(errno));
		finding_fix(f, "uname -r   # Linux 5.3 or later is needed");
		return;
	}
	finding_is(f, PROBE_OK, "pidfd_open works");
	close(fd);
}

void probe_seccomp(struct finding *f)
{
	uint32_t action = SECCOMP_RET_KILL_PROCESS;
	int64_t mode = 0;

	probe_field("/proc/self/status", "Seccomp", &mode);
	finding_number(f, "inherited_mode", mode);
	finding_means(f,
		"The device confines itself to the few system calls it needs "
		"once it is set up.");
	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action)) {
		finding_is(f, PROBE_LIMITED, "seccomp filters are refused: %s",
			strerror(errno));
		finding_fix(f, "zgrep CONFIG_SECCOMP_FILTER /proc/config.gz");
		return;
	}
	finding_is(f, PROBE_OK,
		"seccomp filters can be set; this process "
		"has %s",
		mode == 2 ? "one already (perhaps of a container)" : "none");
}

/* Return the result of PTRACE_TRACEME in a child process: 0 or an errno. */
static int try_ptrace(void)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return errno;
	if (!pid)
		_exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) ? errno : 0);
	/* The child never stops, although it is traced, because _exit() raises
	 * no signal. */
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

void probe_strace(struct finding *f)
{
	int64_t scope = -1, tracer = 0;
	char path[PATH_MAX];
	bool there = probe_program("strace", path, sizeof(path));
	int refused = try_ptrace();

	probe_number("/proc/sys/kernel/yama/ptrace_scope", &scope);
	probe_field("/proc/self/status", "TracerPid", &tracer);
	finding_number(f, "ptrace_scope", scope);
	finding_means(f,
		"scripts/strace-pair shows the system calls of both "
		"processes; docs/tracing-ipc.md explains its output.");
	finding_is(f, PROBE_OK, "%s", there ? path : "strace is not in PATH");
	if (scope >= 0)
		finding_also(f, ", ptrace_scope %lld", (long long)scope);
	if (tracer) {
		finding_also(f,
			"; not tried, because this process is being "
			"traced");
	} else if (refused) {
		f->state = PROBE_LIMITED;
		finding_also(f, "; ptrace: %s", strerror(refused));
		if (scope > 1)
			finding_fix(f, "%ssysctl kernel.yama.ptrace_scope=1",
				probe_sudo());
		else
			finding_fix(f, "grep Seccomp /proc/self/status");
	}
	if (!there) {
		f->state = PROBE_MISSING;
		finding_fix(f, "%sapt-get install strace", probe_sudo());
	}
}

void probe_perf(struct finding *f)
{
	/* Count the CPU cycles of this process in user mode. */
	struct perf_event_attr a = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(a),
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	char path[PATH_MAX];
	bool there = probe_program("perf", path, sizeof(path));
	int fd = (int)syscall(
		SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	int refused = fd < 0 ? errno : 0;
	int64_t paranoid = -1;

	if (fd >= 0)
		close(fd);
	probe_number("/proc/sys/kernel/perf_event_paranoid", &paranoid);
	finding_number(f, "perf_event_paranoid", paranoid);
	finding_is(f, PROBE_OK, "%s, perf_event_paranoid %lld",
		there ? path : "perf is not in PATH", (long long)paranoid);
	finding_means(f,
		"perf shows where the time is spent; Tandem's own figures "
		"(--stats, bench) do not need it.");
	if (!there) {
		f->state = PROBE_MISSING;
		finding_fix(f, "%sapt-get install linux-perf", probe_sudo());
	} else if (refused == EACCES || refused == EPERM) {
		f->state = PROBE_LIMITED;
		finding_also(f, ": counters refused");
		finding_fix(f, "%ssysctl kernel.perf_event_paranoid=1",
			probe_sudo());
	} else if (refused) {
		f->state = PROBE_LIMITED;
		finding_also(f, "; this machine has no hardware counters");
		finding_fix(f,
			"valgrind --tool=callgrind tandem run ...   "
			"# counts instructions without them");
	}
}
