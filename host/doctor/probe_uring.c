/*
 * Probes of reads from storage into shared memory: io_uring, a read that
 * bypasses the page cache into a memfd, and registered buffers.
 */
#include "host/doctor/probe.h"

#include "base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define RING_ENTRIES 8
#define READ_BYTES   65536u
/* bytes to register: about the size of one layer of a model with 4 billion
 * parameters */
#define FIXED_BYTES ((size_t)64 << 20)
#define WAIT_S      2

/* Submit the prepared request and wait for its completion. Returns the result
 * of the request, or a negative errno. */
static int finish(struct io_uring *ring)
{
	struct __kernel_timespec limit = { .tv_sec = WAIT_S };
	struct io_uring_cqe *cqe;
	int ret = io_uring_submit(ring);

	if (ret < 0)
		return ret;
	ret = io_uring_wait_cqe_timeout(ring, &cqe, &limit);
	if (ret < 0)
		return ret;
	ret = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

void probe_io_uring(struct finding *f)
{
	struct io_uring ring;
	int ret = io_uring_queue_init(RING_ENTRIES, &ring, 0);

	finding_means(f,
		"With io_uring, large reads run in parallel with computing; "
		"without it, a thread makes plain reads.");
	if (ret < 0) {
		int error = -ret;
		int64_t disabled = 0, group = -1, filter = 0;

		/* io_uring_queue_init() has failed: find the reason and a
		 * fix. */
		probe_number("/proc/sys/kernel/io_uring_disabled", &disabled);
		probe_number("/proc/sys/kernel/io_uring_group", &group);
		probe_field("/proc/self/status", "Seccomp", &filter);
		finding_is(f, PROBE_MISSING, "io_uring_setup: %s",
			strerror(error));
		if (error == EPERM && disabled) {
			finding_also(f, "; kernel.io_uring_disabled is %lld",
				(long long)disabled);
			if (disabled == 1)
				finding_also(f,
					", this user is not in group %lld",
					(long long)group);
			finding_fix(f, "%ssysctl kernel.io_uring_disabled=0",
				probe_sudo());
		} else if (filter == 2) {
			finding_also(f, "; a seccomp filter refuses it");
			finding_fix(f,
				"docker run --security-opt seccomp=unconfined "
				"...");
		} else if (error == ENOMEM) {
			finding_also(f, "; the locked-memory limit is too low");
			finding_fix(f, "ulimit -l unlimited");
		} else {
			finding_fix(
				f, "uname -r   # Linux 5.6 or later is needed");
		}

		return;
	}
	io_uring_prep_nop(io_uring_get_sqe(&ring));
	ret = finish(&ring);
	if (ret < 0) {
		finding_is(f, PROBE_MISSING, "a ring opens, a NOP fails: %s",
			strerror(-ret));
		finding_fix(f, "uname -r   # Linux 5.6 or later is needed");
	} else {
		finding_is(f, PROBE_OK,
			"a ring of %d entries opens and runs; features %#x",
			RING_ENTRIES, ring.features);
		finding_number(f, "features", ring.features);
	}
	io_uring_queue_exit(&ring);
}

/* Create an unnamed file of READ_BYTES bytes, all equal to `fill`, in the
 * current folder or in a folder for temporary files. Stores the folder's path
 * in `dir`. Returns the file's descriptor, or a negative number. */
static int temp_file(int fill, char dir[PATH_MAX])
{
	const char *place[] = { ".", getenv("TMPDIR"), "/var/tmp", "/tmp" };
	char block[4096];
	int fd = -1;

	memset(block, fill, sizeof(block));
	for (size_t i = 0; i < ARRAY_LEN(place) && fd < 0; i++) {
		if (!place[i] || !realpath(place[i], dir))
			continue;
		fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	}
	for (unsigned at = 0; fd >= 0 && at < READ_BYTES; at += sizeof(block)) {
		if (pwrite(fd, block, sizeof(block), at) == sizeof(block))
			continue;
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Read the file `fd` into `map` without the page cache. Returns 0 or a negative
 * errno. */
static int read_direct(int fd, unsigned char *map)
{
	char path[64];
	struct io_uring ring;
	int direct, ret;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (direct < 0)
		return -errno;
	ret = io_uring_queue_init(RING_ENTRIES, &ring, 0);
	if (ret < 0)
		goto out;
	io_uring_prep_read(io_uring_get_sqe(&ring), direct, map, READ_BYTES, 0);
	ret = finish(&ring);
	io_uring_queue_exit(&ring);
	if (ret >= 0)
		ret = ret == READ_BYTES ? 0 : -EIO;
out:
	close(direct);
	return ret;
}

void probe_direct_read(struct finding *f)
{
	const unsigned char fill = 0x5a;
	char dir[PATH_MAX] = "";
	unsigned char *map;
	int fd, mem, ret;

	finding_means(f,
		"A file in this folder can be read straight into a shared "
		"buffer, without a copy and without evicting other files from "
		"the page cache.");
	fd = temp_file(fill, dir);
	if (fd < 0) {
		finding_is(f, PROBE_LIMITED,
			"no folder in which a file can be "
			"created to try this");
		finding_fix(f, "TMPDIR=FOLDER-ON-DISK tandem doctor");
		return;
	}
	map = probe_memfd(READ_BYTES, 0, &mem);
	ret = map ? read_direct(fd, map) : -errno;
	if (!ret && (map[0] != fill || map[READ_BYTES - 1] != fill))
		ret = -EIO;
	if (ret) {
		finding_is(f, PROBE_LIMITED, "%s: io_uring with O_DIRECT: %s",
			dir, strerror(-ret));
		finding_fix(f, "cd FOLDER-ON-DISK && tandem doctor");
	} else {
		finding_is(f, PROBE_OK, "%s: %u KiB with O_DIRECT into a memfd",
			dir, READ_BYTES >> 10);
	}
	if (map) {
		munmap(map, READ_BYTES);
		close(mem);
	}
	close(fd);
}

/* Try to register FIXED_BYTES, FIXED_BYTES / 2, and so on. Return the largest
 * size that can be registered. */
static size_t most_registered(struct io_uring *ring)
{
	struct iovec iov;
	size_t n = FIXED_BYTES;
	int fd;

	iov.iov_base = probe_memfd(FIXED_BYTES, 0, &fd);
	if (!iov.iov_base)
		return 0;
	for (; n >= 4096; n /= 2) {
		iov.iov_len = n;
		if (!io_uring_register_buffers(ring, &iov, 1))
			break;
	}
	if (n >= 4096)
		io_uring_unregister_buffers(ring);
	munmap(iov.iov_base, FIXED_BYTES);
	close(fd);
	return n >= 4096 ? n : 0;
}

void probe_locked_memory(struct finding *f)
{
	struct rlimit r = { 0, 0 };
	struct io_uring ring;
	char a[24], b[24];
	size_t most = 0;
	uint64_t limit;

	getrlimit(RLIMIT_MEMLOCK, &r);
	if (!io_uring_queue_init(RING_ENTRIES, &ring, 0)) {
		most = most_registered(&ring);
		io_uring_queue_exit(&ring);
	}
	limit = r.rlim_cur == RLIM_INFINITY ? UINT64_MAX : r.rlim_cur;
	finding_is(f, most == FIXED_BYTES ? PROBE_OK : PROBE_LIMITED,
		"%s of buffers can be registered; RLIMIT_MEMLOCK %s",
		probe_bytes(a, most), probe_bytes(b, limit));
	if (most > limit)
		finding_also(f, ", which does not limit this user");
	finding_number(f, "registered", (int64_t)most);
	finding_number(f, "limit", limit == UINT64_MAX ? -1 : (int64_t)limit);
	if (most == FIXED_BYTES) {
		finding_means(f, "Reads can use registered buffers.");
		return;
	}
	finding_means(f,
		"Reads use plain buffers: the kernel looks up their pages "
		"each time, which is hardly measurable for large reads.");
	finding_fix(f, "%sprlimit --pid $$ --memlock=unlimited:unlimited",
		probe_sudo());
}
