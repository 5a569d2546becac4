#include "host/trace/trace.h"

#include "base/err.h"
#include "base/fd.h"
#include "host/trace/perfetto.h"
#include "host/trace/proto_write.h"
#include "host/trace/put_event.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)
#define REST_BYTES   ((size_t)32 << 10)
#define PACKET_MAX   ((size_t)1 << 10)
/* A host that is killed leaves all but the last of it. */
#define FLUSH_NS (1000000000ull)
#define THREADS  32 /* those behind them share a track */

/* Every number is that of one track of the file. */
enum uuid {
	UUID_HOST = 1,
	UUID_PHONE = 2,
	UUID_THREAD = 0x100,
	UUID_COUNTER = 0x200,
	UUID_TRACK = 0x1000,    /* and TRACE_LANES each */
	UUID_DEVICE = 0x100000, /* and so many for each device */
};

struct trace {
	pthread_mutex_t lock;
	int fd;
	char *path;
	uint64_t opened_ns, flushed_ns;
	uint64_t written; /* whole packets in the file */
	int failed;       /* an errno; 0: all is well */
	uint64_t failed_ns;
	pthread_t thread[THREADS];
	unsigned threads;
	char *text[TRACE_TEXTS];
	uint32_t texts;
	uint64_t device; /* the process; 0: none yet */
	bool told_track[TRACE_TRACKS][TRACE_LANES], told_counter[TRACE_NAMES];
	size_t used;
	uint8_t buffer[BUFFER_BYTES];
};

/* ---- the file ------------------------------------------------------------ */

static void flush(struct trace *t)
{
	int ret = t->failed ? 0 : fd_write_all(t->fd, t->buffer, t->used);

	t->flushed_ns = clock_ns();
	if (ret) {
		t->failed = -ret;
		t->failed_ns = t->flushed_ns;
		/* Half a packet would be all that a reader complains of. */
		if (ftruncate(t->fd, (off_t)t->written))
			t->failed = -ret;
	} else if (!t->failed) {
		t->written += t->used;
	}
	t->used = 0;
}

/* A packet is begun in the buffer; *p is what to put into it. */
static size_t packet_begin(struct trace *t, struct proto *p)
{
	if (sizeof(t->buffer) - t->used < PACKET_MAX)
		flush(t);
	*p = (struct proto){ .data = t->buffer + t->used, .room = PACKET_MAX };
	return proto_begin(p, PF_TRACE_PACKET);
}

/* One that does not fit is none: no text of ours is so long. */
static void packet_end(struct trace *t, struct proto *p, size_t begun)
{
	proto_varint(p, PF_SEQUENCE_ID, 1);
	proto_varint(p, PF_SEQUENCE_FLAGS, PF_NEEDS_STATE);
	proto_end(p, begun);
	if (!p->full)
		t->used += p->len;
}

/* ---- names --------------------------------------------------------------- */

static void put_iid(
	struct proto *p, uint32_t field, uint64_t iid, const char *name)
{
	size_t begun = proto_begin(p, field);

	proto_varint(p, PF_IID, iid);
	proto_string(p, PF_IID_NAME, name);
	proto_end(p, begun);
}

static void write_kinds(struct trace *t)
{
	struct proto p;
	size_t packet = packet_begin(t, &p), data;

	data = proto_begin(&p, PF_INTERNED_DATA);
	for (unsigned i = 0; i < TRACE_KINDS; i++)
		put_iid(&p, PF_CATEGORIES, kind_iid(i), trace_kinds[i]);
	proto_end(&p, data);
	proto_varint(&p, PF_SEQUENCE_ID, 1);
	proto_varint(&p, PF_SEQUENCE_FLAGS, PF_STATE_CLEARED | PF_NEEDS_STATE);
	proto_end(&p, packet);
	t->used += p.len;
}

static void write_name(struct trace *t, enum trace_name name)
{
	const struct trace_what *w = &trace_what[name];
	struct proto p;
	size_t packet = packet_begin(t, &p), data;

	data = proto_begin(&p, PF_INTERNED_DATA);
	put_iid(&p, PF_EVENT_NAMES, name_iid(name), w->name);
	for (unsigned i = 0; i < TRACE_ARGS && w->arg[i]; i++)
		put_iid(&p, PF_ARGUMENT_NAMES, argument_iid(name, i),
			w->arg[i]);
	proto_end(&p, data);
	packet_end(t, &p, packet);
}

/* ---- tracks -------------------------------------------------------------- */

static void write_process(
	struct trace *t, uint64_t uuid, pid_t pid, const char *name)
{
	struct proto p;
	size_t packet = packet_begin(t, &p), track, process;

	track = proto_begin(&p, PF_TRACK_DESCRIPTOR);
	proto_varint(&p, PF_UUID, uuid);
	process = proto_begin(&p, PF_PROCESS);
	proto_varint(&p, PF_PROCESS_PID, (uint64_t)pid);
	proto_string(&p, PF_PROCESS_NAME, name);
	proto_end(&p, process);
	proto_end(&p, track);
	packet_end(t, &p, packet);
}

static void write_thread(struct trace *t, unsigned i)
{
	struct proto p;
	size_t packet = packet_begin(t, &p), track, thread;
	char name[32] = "main";

	if (i)
		pthread_getname_np(t->thread[i], name, sizeof(name));
	track = proto_begin(&p, PF_TRACK_DESCRIPTOR);
	proto_varint(&p, PF_UUID, UUID_THREAD + i);
	proto_varint(&p, PF_PARENT_UUID, UUID_HOST);
	thread = proto_begin(&p, PF_THREAD);
	proto_varint(&p, PF_THREAD_PID, (uint64_t)getpid());
	proto_varint(&p, PF_THREAD_TID, (uint64_t)gettid());
	proto_string(&p, PF_THREAD_NAME, name);
	proto_end(&p, thread);
	proto_end(&p, track);
	packet_end(t, &p, packet);
}

static void write_track(struct trace *t, uint64_t uuid, uint64_t parent,
	const char *name, bool counter)
{
	struct proto p;
	size_t packet = packet_begin(t, &p), track;

	track = proto_begin(&p, PF_TRACK_DESCRIPTOR);
	proto_varint(&p, PF_UUID, uuid);
	proto_varint(&p, PF_PARENT_UUID, parent);
	proto_string(&p, PF_TRACK_NAME, name);
	if (counter)
		proto_end(&p, proto_begin(&p, PF_COUNTER_TRACK));
	proto_end(&p, track);
	packet_end(t, &p, packet);
}

static const struct {
	const char *name;
	uint64_t parent;
} tracks[TRACE_TRACKS] = {
	[TRACE_ON_REQUESTS] = { "requests", UUID_HOST },
	[TRACE_ON_FLASH] = { "flash", UUID_HOST },
	[TRACE_ON_DEVICE] = { "worker", UUID_DEVICE },
	[TRACE_ON_WINDOW] = { "window", UUID_HOST },
	[TRACE_ON_PHONE_CPU] = { "phone CPU", UUID_PHONE },
	[TRACE_ON_PHONE_NPU] = { "phone NPU", UUID_PHONE },
	[TRACE_ON_PHONE_LOADER] = { "phone loader", UUID_PHONE },
	[TRACE_ON_PHONE_FLASH] = { "phone flash", UUID_PHONE },
	[TRACE_ON_PHONE_COPY] = { "phone copies", UUID_PHONE },
};

/* Of the calling thread, which is told of when it tells something first. */
static uint64_t thread_track(struct trace *t)
{
	pthread_t self = pthread_self();
	unsigned i = 0;

	while (i < t->threads && !pthread_equal(t->thread[i], self))
		i++;
	if (i == t->threads && i < THREADS) {
		t->thread[t->threads++] = self;
		write_thread(t, i);
	}
	return UUID_THREAD + i;
}

static uint64_t counter_track(struct trace *t, enum trace_name name)
{
	uint64_t uuid = UUID_COUNTER + name;

	if (!t->told_counter[name])
		write_track(t, uuid, UUID_HOST, trace_what[name].name, true);
	t->told_counter[name] = true;
	return uuid;
}

static uint64_t device_track(struct trace *t, const struct trace_event *v)
{
	uint64_t uuid = t->device + 1 + v->lane;
	bool *told = &t->told_track[v->track][v->lane];
	char name[32] = "run loop";

	if (v->name == TRACE_DEVICE_LOAD || v->name == TRACE_DEVICE_DMA)
		snprintf(name, sizeof(name), "%s",
			v->name == TRACE_DEVICE_DMA ? "DMA" : "loader");
	else if (v->lane)
		snprintf(name, sizeof(name), "worker %u", v->lane);
	if (!*told)
		write_track(t, uuid, t->device, name, false);
	*told = true;
	return uuid;
}

static uint64_t track_of(struct trace *t, const struct trace_event *v)
{
	uint64_t uuid = UUID_TRACK + (uint64_t)v->track * TRACE_LANES + v->lane;
	bool *told = &t->told_track[v->track][v->lane];

	if (v->type == TRACE_COUNT)
		return counter_track(t, v->name);
	if (v->track == TRACE_ON_THREAD)
		return thread_track(t);
	if (v->track == TRACE_ON_DEVICE)
		return device_track(t, v);
	if (!*told)
		write_track(t, uuid, tracks[v->track].parent,
			tracks[v->track].name, false);
	*told = true;
	return uuid;
}

/* ---- events -------------------------------------------------------------- */

static bool is_phone(enum trace_track track)
{
	return tracks[track].parent == UUID_PHONE;
}

void trace_tell(struct trace *t, const struct trace_event *v)
{
	uint64_t track, ns;

	pthread_mutex_lock(&t->lock);
	if (t->failed)
		goto out;
	ns = is_phone(v->track) ? t->opened_ns + v->at / 1000 : v->at;
	track = track_of(t, v);
	if (sizeof(t->buffer) - t->used < PUT_EVENT_MAX)
		flush(t);
	t->used += put_event(t->buffer + t->used, ns, track, v);
	if (!is_phone(v->track) && ns > t->flushed_ns + FLUSH_NS)
		flush(t);
out:
	pthread_mutex_unlock(&t->lock);
}

void trace_hold(struct trace *t)
{
	pthread_mutex_lock(&t->lock);
}

void trace_let_go(struct trace *t)
{
	pthread_mutex_unlock(&t->lock);
}

void trace_rest(struct trace *t)
{
	pthread_mutex_lock(&t->lock);
	if (t->used >= REST_BYTES)
		flush(t);
	pthread_mutex_unlock(&t->lock);
}

void trace_phone(struct trace *t, const char *name)
{
	char text[256];

	snprintf(text, sizeof(text), "phone (%s, its own time)", name);
	pthread_mutex_lock(&t->lock);
	/* No process has this number: PID_MAX_LIMIT is 2^22. */
	write_process(t, UUID_PHONE, 1 << 22, text);
	pthread_mutex_unlock(&t->lock);
}

void trace_device(struct trace *t, pid_t pid)
{
	pthread_mutex_lock(&t->lock);
	t->device = t->device ? t->device + 2 * TRACE_LANES : UUID_DEVICE;
	memset(t->told_track[TRACE_ON_DEVICE], 0,
		sizeof(t->told_track[TRACE_ON_DEVICE]));
	write_process(t, t->device, pid, "tandem-npu");
	pthread_mutex_unlock(&t->lock);
}

static void write_text(struct trace *t, uint32_t number)
{
	struct proto p;
	size_t packet = packet_begin(t, &p), data;

	data = proto_begin(&p, PF_INTERNED_DATA);
	put_iid(&p, PF_EVENT_NAMES, TEXT_IID - 1 + number, t->text[number - 1]);
	proto_end(&p, data);
	packet_end(t, &p, packet);
}

static uint32_t number_of(struct trace *t, const char *text)
{
	for (uint32_t i = 0; i < t->texts; i++)
		if (!strcmp(t->text[i], text))
			return i + 1;
	if (t->texts == TRACE_TEXTS)
		return 0;
	t->text[t->texts] = strdup(text);
	if (!t->text[t->texts])
		return 0;
	write_text(t, ++t->texts);
	return t->texts;
}

uint32_t trace_text(struct trace *t, const char *text)
{
	uint32_t number;

	pthread_mutex_lock(&t->lock);
	number = number_of(t, text);
	pthread_mutex_unlock(&t->lock);
	return number;
}

/* Any number that both have: FNV-1a of the name. */
uint64_t trace_write_flow(const char *buffer, uint32_t cpu_seq)
{
	uint32_t hash = 2166136261u;

	for (; *buffer; buffer++)
		hash = (hash ^ (uint8_t)*buffer) * 16777619u;
	return (uint64_t)(hash | 1u << 31) << 32 | cpu_seq;
}

/* ---- life ---------------------------------------------------------------- */

static int open_file(struct trace *t, struct err *e)
{
	t->fd = open(t->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (t->fd < 0)
		return err_sys(
			e, errno, "cannot write the trace '%s'", t->path);
	if (flock(t->fd, LOCK_EX | LOCK_NB))
		return err_set(e, EBUSY,
			"the trace '%s' is being written already: a file has "
			"that of one pair",
			t->path);
	/* What is no regular file has nothing to empty. */
	if (ftruncate(t->fd, 0) && errno != EINVAL)
		return err_sys(
			e, errno, "cannot write the trace '%s'", t->path);
	return 0;
}

/* Who holds it tells on. */
static void init_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t again;

	pthread_mutexattr_init(&again);
	pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(lock, &again);
	pthread_mutexattr_destroy(&again);
}

static void trace_free(struct trace *t)
{
	fd_close(&t->fd);
	pthread_mutex_destroy(&t->lock);
	for (uint32_t i = 0; i < t->texts; i++)
		free(t->text[i]);
	free(t->path);
	free(t);
}

int trace_open(struct trace **out, const char *path, struct err *e)
{
	struct trace *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return err_set(e, ENOMEM, "no memory for a trace");
	t->fd = -1;
	init_lock(&t->lock);
	t->path = strdup(path);
	ret = t->path ? open_file(t, e)
		      : err_set(e, ENOMEM, "no memory for a trace");
	if (ret) {
		trace_free(t);
		return ret;
	}
	t->opened_ns = t->flushed_ns = clock_ns();
	write_kinds(t);
	for (unsigned i = 0; i < TRACE_NAMES; i++)
		write_name(t, i);
	write_process(t, UUID_HOST, getpid(), "tandem");
	*out = t;
	return 0;
}

int trace_close(struct trace *t, struct err *e)
{
	int ret = 0;

	if (!t)
		return 0;
	flush(t);
	if (t->failed)
		ret = err_sys(e, t->failed,
			"the trace '%s' ends %.3f s behind its beginning, for "
			"it cannot be written",
			t->path, (double)(t->failed_ns - t->opened_ns) * 1e-9);
	trace_free(t);
	return ret;
}
