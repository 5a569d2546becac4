/* Tests memory_left with folders that take the place of /proc and /sys. Their
 * files contain chosen numbers. */
#include "tests/harness.h"

#include "base/memory_left.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MIB ((uint64_t)1 << 20)

static char root[4200], proc[4300], sys[4300];

/* Write a file below root, and create the folders above the file. */
static void put(const char *name, const char *text)
{
	char path[4800];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0700);
		*p = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_mib(const char *name, unsigned mib)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)mib * MIB);
	put(name, text);
}

/* Set up a machine with 1000 MiB of memory, of which 600 MiB are free. */
static void start(void)
{
	snprintf(root, sizeof(root), "%s", harness_tmp());
	snprintf(proc, sizeof(proc), "%s/proc", root);
	snprintf(sys, sizeof(sys), "%s/sys", root);
	put("proc/meminfo",
		"MemTotal:  1024000 kB\nMemAvailable: 614400 kB\n"
		"SwapTotal: 0 kB\nSwapFree: 0 kB\n");
}

static void check(uint64_t mib, uint64_t limit_mib, const char *where)
{
	struct memory_left m;

	memory_left(&m, proc, sys);
	assert_int_equal(m.bytes, mib * MIB);
	assert_int_equal(m.limit, limit_mib * MIB);
	assert_string_equal(m.where, where);
}

static void test_machine(void **state)
{
	struct memory_left m;

	start();
	check(600, 1000, "the machine");
	put("proc/meminfo",
		"MemTotal:  1024000 kB\nMemAvailable: 614400 kB\n"
		"SwapTotal: 409600 kB\nSwapFree: 204800 kB\n");
	check(800, 1000, "the machine");
	put("proc/meminfo", "MemTotal:  1024000 kB\n");
	memory_left(&m, proc, sys);
	assert_int_equal(m.bytes, UINT64_MAX);
}

static void test_v2(void **state)
{
	start();
	put("proc/self/cgroup", "0::/a/b\n");
	put_mib("sys/fs/cgroup/a/memory.max", 500);
	put_mib("sys/fs/cgroup/a/memory.current", 300);
	put("sys/fs/cgroup/a/b/memory.max", "max\n");
	put_mib("sys/fs/cgroup/a/b/memory.current", 300);
	check(200, 500, "control group '/a'");
	/* Page cache (inactive_file and active_file) can be reclaimed, so it
	 * counts as free; shared memory does not. */
	put("sys/fs/cgroup/a/memory.stat",
		"anon 1048576\nfile 104857600\nshmem 52428800\n"
		"inactive_file 31457280\nactive_file 20971520\n");
	check(250, 500, "control group '/a'");
	put_mib("sys/fs/cgroup/a/b/memory.max", 310);
	check(10, 310, "control group '/a/b'");
	/* the limit is below the current use */
	put_mib("sys/fs/cgroup/a/b/memory.max", 200);
	check(0, 200, "control group '/a/b'");
	put_mib("sys/fs/cgroup/a/b/memory.max", 900);
	put_mib("sys/fs/cgroup/a/memory.max", 2000);
	check(600, 1000, "the machine"); /* the group also has 600 MiB left */
}

static void test_v2_swap(void **state)
{
	start();
	put("proc/meminfo",
		"MemTotal:  1024000 kB\nMemAvailable: 614400 kB\n"
		"SwapTotal: 409600 kB\nSwapFree: 204800 kB\n");
	put("proc/self/cgroup", "0::/a\n");
	put_mib("sys/fs/cgroup/a/memory.max", 400);
	put_mib("sys/fs/cgroup/a/memory.current", 300);
	put("sys/fs/cgroup/a/memory.swap.max", "max\n");
	check(300, 400, "control group '/a'");
	put_mib("sys/fs/cgroup/a/memory.swap.max", 60);
	put_mib("sys/fs/cgroup/a/memory.swap.current", 20);
	check(140, 400, "control group '/a'");
	put_mib("sys/fs/cgroup/a/memory.swap.max", 0);
	check(100, 400, "control group '/a'");
}

static void test_v1(void **state)
{
	start();
	/* Lines without two colons are skipped. */
	put("proc/self/cgroup",
		"no colon\n3:memory\n9:name=systemd:/\n4:cpu,memory:/box/a\n"
		"0::/\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes",
		"9223372036854771712\n");
	put_mib("sys/fs/cgroup/memory/memory.usage_in_bytes", 300);
	check(600, 1000, "the machine");
	put_mib("sys/fs/cgroup/memory/box/a/memory.limit_in_bytes", 450);
	put_mib("sys/fs/cgroup/memory/box/a/memory.usage_in_bytes", 50);
	check(400, 450, "control group '/box/a'");
	put("sys/fs/cgroup/memory/box/a/memory.stat",
		"cache 9\ninactive_file 1\ntotal_inactive_file 10485760\n"
		"total_active_file 10485760\n");
	check(420, 450, "control group '/box/a'");
}

/* In a container /proc gives the name that the control group has outside the
 * container, and /sys has only the files of this group. */
static void test_top_alone(void **state)
{
	start();
	put("proc/self/cgroup", "0::/docker/123\n");
	put_mib("sys/fs/cgroup/memory.max", 128);
	put_mib("sys/fs/cgroup/memory.current", 28);
	check(100, 128, "control group '/'");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_machine),
	cmocka_unit_test(test_v2),
	cmocka_unit_test(test_v2_swap),
	cmocka_unit_test(test_v1),
	cmocka_unit_test(test_top_alone),
};

TEST_FILE(tests)
