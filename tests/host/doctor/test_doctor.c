/*
 * The probes of `tandem doctor`, each of which checks a feature of the machine,
 * under artificial limits. A probe fails the test if it reports "ok" without
 * the feature, or if it names the wrong cause. A limit cannot be removed again,
 * so each probe runs in a child process.
 */
#include "tests/harness.h"

#include "base/clock.h"
#include "host/doctor/probe.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <dirent.h>

#define NOBODY 65534

static const struct probe *find(const char *name)
{
	for (size_t i = 0; i < n_probes; i++)
		if (!strcmp(probes[i].name, name))
			return &probes[i];
	fail_msg("no probe '%s'", name);
	return NULL;
}

struct look {
	struct finding f; /* its member `numbers` is not valid in the parent */
	long long number; /* value of the requested key */
};

/* Run the probe `name` in a child process that first calls prepare(arg). The
 * child ends by exit(), so that its lines are counted (make coverage); with a
 * sanitizer it ends by _exit(), because a search for leaks needs ptrace, which
 * `prepare` may have forbidden. */
static void look(struct look *out, const char *name, const char *key,
	void (*prepare)(const void *), const void *arg)
{
	struct look *shared = mmap(NULL, sizeof(*shared),
		PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct probe *p = find(name);
	int status;
	pid_t pid;

	assert_ptr_not_equal(shared, MAP_FAILED);
	fflush(NULL); /* otherwise the child writes buffered output again */
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prepare(arg);
		probe_look(p, &shared->f);
		shared->number = json_integer_value(
			json_object_get(shared->f.numbers, key ? key : ""));
		if (harness_sanitized())
			_exit(0);
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	*out = *shared;
	munmap(shared, sizeof(*shared));
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' does not contain '%s'", text, part);
}

static void assert_state(const struct look *l, enum probe_state want)
{
	if (l->f.state != want)
		fail_msg("is %s, not %s: %s", probe_state_name(l->f.state),
			probe_state_name(want), l->f.found);
}

/* ---- limits -------------------------------------------------------------- */

struct refusal {
	long nr;
	unsigned error;
};

/* Make one system call fail, as the filter of a container would. */
static void refuse(const void *arg)
{
	const struct refusal *r = arg;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)r->nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | r->error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { 4, code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		_exit(99);
}

/* Limit locked memory. The limit does not apply to root, so root changes to
 * another user. */
static void limit_locked(const void *arg)
{
	const rlim_t *bytes = arg;
	struct rlimit r = { *bytes, *bytes };

	if (setrlimit(RLIMIT_MEMLOCK, &r) ||
		(!geteuid() && setresuid(NOBODY, NOBODY, NOBODY)))
		_exit(99);
}

static void limit_address_space(const void *arg)
{
	const rlim_t *bytes = arg;
	struct rlimit r = { *bytes, *bytes };

	if (setrlimit(RLIMIT_AS, &r))
		_exit(99);
}

static void one_processor(const void *arg)
{
	cpu_set_t set;
	int cpu = sched_getcpu();

	CPU_ZERO(&set);
	CPU_SET(cpu < 0 ? 0 : cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		_exit(99);
}

/* Set an environment variable ("NAME=VALUE") or unset it ("NAME"). */
static void environment(const void *arg)
{
	char text[512], *is;

	snprintf(text, sizeof(text), "%s", (const char *)arg);
	is = strchr(text, '=');
	if (is)
		*is = '\0';
	if (is ? setenv(text, is + 1, 1) : unsetenv(text))
		_exit(99);
}

/* ---- tests --------------------------------------------------------- */

static int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void test_every_probe_is_complete(void **state)
{
	/* libdbus keeps its first descriptors open, so it must open them before
	 * the test counts descriptors. */
	struct finding f;
	int before;

	probe_look(find("system-bus"), &f);
	finding_release(&f);
	before = open_files();
	for (size_t i = 0; i < n_probes; i++) {
		const struct probe *p = &probes[i];

		probe_look(p, &f);
		print_message("%s: %s: %s\n", p->name,
			probe_state_name(f.state), f.found);
		assert_ptr_equal(find(p->name), p); /* the name is unique */
		assert_in_range(f.state, PROBE_OK, PROBE_MISSING);
		assert_in_range(strlen(f.found), 3, sizeof(f.found) - 2);
		assert_in_range(strlen(f.means), 10, sizeof(f.means) - 2);
		assert_in_range(strlen(f.fix), 0, sizeof(f.fix) - 2);
		if (f.state != PROBE_OK && !*f.fix)
			fail_msg("%s is %s and says nothing to try", p->name,
				probe_state_name(f.state));
		finding_release(&f);
	}
	assert_int_equal(open_files(), before);
}

static void test_io_uring_names_the_filter(void **state)
{
	const struct refusal r = { SYS_io_uring_setup, EPERM };
	struct look l;

	look(&l, "io_uring", NULL, refuse, &r);
	assert_state(&l, PROBE_MISSING);
	assert_has(l.f.found, strerror(EPERM));
	assert_has(l.f.found, "seccomp filter");
	assert_has(l.f.fix, "seccomp=unconfined");
	look(&l, "direct-read", NULL, refuse, &r);
	assert_state(&l, PROBE_LIMITED);
	look(&l, "locked-memory", "registered", refuse, &r);
	assert_state(&l, PROBE_LIMITED);
	assert_int_equal(l.number, 0);
}

static void test_system_calls_refused(void **state)
{
	const struct {
		struct refusal r;
		const char *probe;
		enum probe_state want;
	} t[] = {
		{ { SYS_memfd_create, ENOSYS }, "memfd", PROBE_MISSING },
		{ { SYS_memfd_create, ENOSYS }, "futex", PROBE_MISSING },
		{ { SYS_futex, EPERM }, "futex", PROBE_MISSING },
		{ { SYS_pidfd_open, ENOSYS }, "pidfd", PROBE_LIMITED },
		{ { SYS_seccomp, ENOSYS }, "seccomp", PROBE_LIMITED },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct look l;

		look(&l, t[i].probe, NULL, refuse, &t[i].r);
		assert_state(&l, t[i].want);
		assert_true(*l.f.fix);
	}
}

static void test_ptrace_refused(void **state)
{
	const struct refusal r = { SYS_ptrace, EPERM };
	struct look l;

	look(&l, "strace", NULL, refuse, &r);
	if (l.f.state == PROBE_OK)
		fail_msg("ptrace was refused, yet: %s", l.f.found);
	look(&l, "strace", NULL, environment, "PATH=/nonexistent");
	assert_state(&l, PROBE_MISSING);
	assert_has(l.f.fix, "apt-get install strace");
}

static void test_locked_memory_limit(void **state)
{
	const rlim_t bytes = 256 << 10;
	const struct refusal none = { -1, 0 };
	struct look l;

	look(&l, "io_uring", NULL, refuse, &none);
	if (l.f.state != PROBE_OK) {
		print_message("skipped: io_uring is not usable here\n");
		skip();
	}
	look(&l, "locked-memory", "registered", limit_locked, &bytes);
	assert_state(&l, PROBE_LIMITED);
	assert_in_range(l.number, 0, bytes);
	assert_has(l.f.found, "256 KiB");
	assert_has(l.f.fix, "memlock=unlimited");
}

static void test_address_space_limit(void **state)
{
	const rlim_t bytes = (rlim_t)1 << 30, tiny = 16 << 20;
	struct look l;

	if (harness_sanitized()) {
		print_message("skipped: a sanitizer needs its terabytes\n");
		skip();
	}
	look(&l, "address-space", "window", limit_address_space, &bytes);
	assert_state(&l, PROBE_LIMITED);
	assert_int_equal(l.number, 256 << 20);
	assert_has(l.f.found, "RLIMIT_AS 1 GiB");
	look(&l, "address-space", "window", limit_address_space, &tiny);
	assert_state(&l, PROBE_MISSING);
	assert_int_equal(l.number, 0);
}

static void test_one_processor(void **state)
{
	struct look l;

	look(&l, "cores", "usable", one_processor, NULL);
	assert_state(&l, PROBE_LIMITED);
	assert_int_equal(l.number, 1);
}

static void test_kernels_held_back(void **state)
{
	struct look l;

	look(&l, "processor", NULL, environment, "TANDEM_CPU=ref");
	assert_state(&l, PROBE_LIMITED);
	assert_has(l.f.found, "ref kernels");
	look(&l, "processor", NULL, environment, "TANDEM_CPU=abacus");
	assert_state(&l, PROBE_MISSING);
	assert_has(l.f.found, "abacus");
}

static void test_device_program(void **state)
{
	struct look l;

	look(&l, "device", NULL, environment, "TANDEM_NPU=/nonexistent/npu");
	assert_state(&l, PROBE_MISSING);
	assert_has(l.f.found, "/nonexistent/npu");
	assert_has(l.f.fix, "unset TANDEM_NPU");
	look(&l, "device", NULL, environment, "TANDEM_NPU=/bin/true");
	assert_state(&l, PROBE_OK);
	assert_has(l.f.found, "/bin/true");
}

static void test_bus_that_is_not_there(void **state)
{
	struct look l;

	look(&l, "session-bus", NULL, environment,
		"DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent/bus");
	assert_state(&l, PROBE_MISSING);
	assert_has(l.f.found, "/nonexistent/bus");
	/* The probe must not start a bus. */
	look(&l, "session-bus", NULL, environment,
		"DBUS_SESSION_BUS_ADDRESS=autolaunch:");
	if (l.f.state == PROBE_OK && !getenv("XDG_RUNTIME_DIR"))
		fail_msg("a bus came out of nowhere: %s", l.f.found);
}

/* A socket accepts the connection and never sends anything. */
static void test_bus_that_does_not_answer(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const char *dir = harness_tmp();
	uint64_t began = clock_ns();
	char text[160];
	struct look l;
	int fd;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%.80s/bus", dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 4), 0);
	snprintf(text, sizeof(text), "DBUS_SESSION_BUS_ADDRESS=unix:path=%s",
		at.sun_path);
	look(&l, "session-bus", NULL, environment, text);
	close(fd);
	unlink(at.sun_path);
	rmdir(dir);
	assert_state(&l, PROBE_MISSING);
	assert_in_range((clock_ns() - began) / 1000000, 0, 4000);
}

static void test_bytes(void **state)
{
	char buf[24];

	assert_string_equal(probe_bytes(buf, 0), "0 bytes");
	assert_string_equal(probe_bytes(buf, 1023), "1023 bytes");
	assert_string_equal(probe_bytes(buf, 8 << 20), "8 MiB");
	assert_string_equal(probe_bytes(buf, 3584ull << 20), "3.5 GiB");
	assert_string_equal(probe_bytes(buf, UINT64_MAX), "unlimited");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_every_probe_is_complete),
	cmocka_unit_test(test_io_uring_names_the_filter),
	cmocka_unit_test(test_system_calls_refused),
	cmocka_unit_test(test_ptrace_refused),
	cmocka_unit_test(test_locked_memory_limit),
	cmocka_unit_test(test_address_space_limit),
	cmocka_unit_test(test_one_processor),
	cmocka_unit_test(test_kernels_held_back),
	cmocka_unit_test(test_device_program),
	cmocka_unit_test(test_bus_that_is_not_there),
	cmocka_unit_test(test_bus_that_does_not_answer),
	cmocka_unit_test(test_bytes),
};

TEST_FILE(tests)
