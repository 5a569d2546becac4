/* Tests that the CPU pressure (the share of time in which tasks wait for a CPU)
 * is read from files like those of /proc. */
#include "base/cpu_pressure.h"

#include "tests/harness.h"

#include <stdio.h>
#include <sys/stat.h>

static char proc[4000];

static void put(const char *name, const char *text)
{
	char path[4100];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", proc, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_cpu_pressure(void **state)
{
	char path[4100];

	snprintf(proc, sizeof(proc), "%s", harness_tmp());
	assert_close(cpu_pressure(proc, 2), 0, 0, "without files");
	put("loadavg", "1.50 0.10 0.20 1/100 4711\n");
	assert_close(cpu_pressure(proc, 2), 0, 0, "fewer tasks than CPUs");
	put("loadavg", "8.00 0.10 0.20 9/100 4711\n");
	assert_close(cpu_pressure(proc, 2), .75, 1e-9, "6 of 8 tasks wait");
	snprintf(path, sizeof(path), "%s/pressure", proc);
	assert_int_equal(mkdir(path, 0700), 0);
	put("pressure/cpu",
		"some avg10=12.50 avg60=1.00 avg300=0.50 total=9\n");
	assert_close(cpu_pressure(proc, 2), .125, 1e-9, "12.5 %");
	put("pressure/cpu", "something else\n");
	assert_close(cpu_pressure(proc, 2), .75, 1e-9, "another format");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_cpu_pressure),
};

TEST_FILE(tests)
