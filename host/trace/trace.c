#include "host/trace/trace.h"

#include "base/err.h"
#include "host/trace/perfetto.h"
#include "host/trace/proto_write.h"
#include "host/trace/put_event.h"
#include "host/trace/trace_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Events are written to the file at this interval: if the host is killed, the
 * trace lacks at most the events of the last second. */
#define FLUSH_NS (1000000000ull)
/* Maximum number of host threads with a track. The events of further threads
 * are dropped: on a shared track, a thread's end event would end the slice of
 * another thread. */
#define THREADS 32

/* Numbers of tracks, which must be unique within a file. */
enum uuid {
	UUID_HOST = 1,
	UUID_PHONE = 2,
	UUID_THREAD = 0x100,
	UUID_COUNTER = 0x200,
	/* from here on: TRACE_LANES numbers for each enum trace_track */
	UUID_TRACK = 0x1000,
	/* from here on: 2 * TRACE_LANES numbers for each device process */
	UUID_DEVICE = 0x100000,
};

struct known_thread {
	pthread_t self;
	pid_t tid;
	char name[16];
};

/* A slice that has begun but not ended. If the file is rotated before the slice
 * ends, its begin event is repeated in the next file. */
struct open_slice {
	uint64_t track, ns;
	struct trace_event event;
};

struct trace {
	pthread_mutex_t lock;
	struct known_thread thread[THREADS];
	unsigned threads;
	char *text[TRACE_TEXTS];
	uint32_t texts;
	char *phone; /* name of the simulated phone; NULL if there is none */
	/* track number of the current device process; 0 if there is none yet */
	uint64_t device;
	pid_t device_pid;
	bool described_track[TRACE_TRACKS][TRACE_LANES],
		described_counter[TRACE_NAMES];
	/* Used only if the file has a size limit: the open slices, in the order
	 * in which they began. */
	struct open_slice *open;
	size_t n_open, open_room;
	struct trace_file file;
};

/* ---- packets ------------------------------------------------------------- */

/* Begin a packet in the file's buffer; *p is set up to write the packet. */
static size_t packet_begin(struct trace *t, struct proto *p)
{
	*p = (struct proto){ .data = trace_file_room(
				     &t->file, TRACE_FILE_PACKET),
		.room = TRACE_FILE_PACKET };
	return proto_begin(p, PF_TRACE_PACKET);
}

/* End the packet and append it to the file. A packet that does not fit into
 * TRACE_FILE_PACKET is dropped; Tandem writes no names so long that this
 * happens. */
static void packet_end(struct trace *t, struct proto *p, size_t begun)
{
	proto_varint(p, PF_SEQUENCE_ID, 1);
	proto_varint(p, PF_SEQUENCE_FLAGS, PF_NEEDS_STATE);
	proto_end(p, begun);
	if (!p->full)
		trace_file_put(&t->file, p->len);
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

	track = proto_begin(&p, PF_TRACK_DESCRIPTOR);
	proto_varint(&p, PF_UUID, UUID_THREAD + i);
	proto_varint(&p, PF_PARENT_UUID, UUID_HOST);
	thread = proto_begin(&p, PF_THREAD);
	proto_varint(&p, PF_THREAD_PID, (uint64_t)getpid());
	proto_varint(&p, PF_THREAD_TID, (uint64_t)t->thread[i].tid);
	proto_string(&p, PF_THREAD_NAME, t->thread[i].name);
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
	[TRACE_ON_TEXTS] = { "texts", UUID_HOST },
	[TRACE_ON_FILE] = { "this file", UUID_HOST },
	[TRACE_ON_PHONE_CPU] = { "phone CPU", UUID_PHONE },
	[TRACE_ON_PHONE_NPU] = { "phone NPU", UUID_PHONE },
	[TRACE_ON_PHONE_LOADER] = { "phone loader", UUID_PHONE },
	[TRACE_ON_PHONE_FLASH] = { "phone flash", UUID_PHONE },
	[TRACE_ON_PHONE_COPY] = { "phone copies", UUID_PHONE },
};

static uint64_t track_of(struct trace *t, const struct trace_event *v)
{
	uint64_t uuid = UUID_TRACK + (uint64_t)v->track * TRACE_LANES + v->lane;
	bool *described = &t->described_track[v->track][v->lane];

	if (v->type == TRACE_COUNT) {
		if (!t->described_counter[v->name])
			write_track(t, UUID_COUNTER + v->name, UUID_HOST,
				trace_what[v->name].name, true);
		t->described_counter[v->name] = true;
		return UUID_COUNTER + v->name;
	}
	if (v->track == TRACE_ON_THREAD) {
		/* Find the number of the calling thread's track, or return 0 if
		 * there are too many threads. The thread's first event adds a
		 * description of the track to the file. */
		pthread_t self = pthread_self();
		unsigned i = 0;

		while (i < t->threads &&
			!pthread_equal(t->thread[i].self, self))
			i++;
		if (i == THREADS)
			return 0;
		if (i == t->threads) {
			struct known_thread *x = &t->thread[i];

			x->self = self;
			x->tid = gettid();
			if (i)
				pthread_getname_np(
					self, x->name, sizeof(x->name));
			else
				snprintf(x->name, sizeof(x->name), "main");
			write_thread(t, t->threads++);
		}
		return UUID_THREAD + i;
	}
	if (v->track == TRACE_ON_DEVICE) {
		uuid = t->device + 1 + v->lane;
		described = &t->described_track[v->track][v->lane];
		if (!*described) {
			char name[32] = "run loop";

			if (v->name == TRACE_DEVICE_LOAD ||
				v->name == TRACE_DEVICE_DMA)
				snprintf(name, sizeof(name), "%s",
					v->name == TRACE_DEVICE_DMA ? "DMA"
								    : "loader");
			else if (v->lane)
				snprintf(name, sizeof(name), "worker %u",
					v->lane);
			write_track(t, uuid, t->device, name, false);
		}
		*described = true;
		return uuid;
	}
	if (!*described)
		write_track(t, uuid, tracks[v->track].parent,
			tracks[v->track].name, false);
	*described = true;
	return uuid;
}

/* ---- processes and added names ------------------------------------------- */

/* The phone's process id is 2^22 = PID_MAX_LIMIT, which no real process can
 * have. */
static void write_phone(struct trace *t)
{
	char text[768];

	snprintf(text, sizeof(text), "phone (%s, its own time)", t->phone);
	write_process(t, UUID_PHONE, 1 << 22, text);
}

void trace_phone(struct trace *t, const char *name)
{
	pthread_mutex_lock(&t->lock);
	free(t->phone);
	t->phone = strdup(name);
	if (t->phone)
		write_phone(t);
	pthread_mutex_unlock(&t->lock);
}

void trace_device(struct trace *t, pid_t pid)
{
	pthread_mutex_lock(&t->lock);
	t->device = t->device ? t->device + 2 * TRACE_LANES : UUID_DEVICE;
	t->device_pid = pid;
	memset(t->described_track[TRACE_ON_DEVICE], 0,
		sizeof(t->described_track[TRACE_ON_DEVICE]));
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

uint32_t trace_text(struct trace *t, const char *text)
{
	uint32_t i = 0;

	pthread_mutex_lock(&t->lock);
	while (i < t->texts && strcmp(t->text[i], text))
		i++;
	if (i == t->texts && i < TRACE_TEXTS && (t->text[i] = strdup(text)))
		write_text(t, ++t->texts);
	i = i < t->texts ? i + 1 : 0;
	pthread_mutex_unlock(&t->lock);
	return i;
}

/* ---- events -------------------------------------------------------------- */

static bool is_phone(enum trace_track track)
{
	return tracks[track].parent == UUID_PHONE;
}

static void write_event(struct trace *t, uint64_t track, uint64_t ns,
	const struct trace_event *v)
{
	uint8_t *to = trace_file_room(&t->file, PUT_EVENT_MAX);

	trace_file_put(&t->file, put_event(to, ns, track, v));
}

static void record(struct trace *t, const struct trace_event *v)
{
	uint64_t ns =
		is_phone(v->track) ? t->file.opened_ns + v->at / 1000 : v->at;
	uint64_t track = track_of(t, v);

	if (!track)
		return;
	write_event(t, track, ns, v);
	if (t->file.limit && v->type == TRACE_BEGIN) {
		if (t->n_open == t->open_room) {
			size_t room = t->open_room ? 2 * t->open_room : 64;
			void *more =
				reallocarray(t->open, room, sizeof(*t->open));

			/* Without memory for the list of open slices, the next
			 * file could not repeat their begin events. So do not
			 * rotate the file any more. */
			if (!more) {
				t->file.limit = 0;
			} else {
				t->open = more;
				t->open_room = room;
			}
		}
		if (t->file.limit)
			t->open[t->n_open++] =
				(struct open_slice){ track, ns, *v };
	} else if (t->file.limit && v->type == TRACE_END) {
		size_t i = t->n_open;

		while (i && t->open[i - 1].track != track)
			i--;
		if (i)
			memmove(&t->open[i - 1], &t->open[i],
				(t->n_open-- - i) * sizeof(*t->open));
	}
	if (!is_phone(v->track) && ns > t->file.flushed_ns + FLUSH_NS)
		trace_file_flush(&t->file);
}

/* ---- rotation ------------------------------------------------------------ */

/* Write the start of a file: the names, and the descriptions of processes and
 * host threads. */
static void begin_file(struct trace *t)
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
	trace_file_put(&t->file, p.len);

	for (unsigned i = 0; i < TRACE_NAMES; i++) {
		const struct trace_what *w = &trace_what[i];

		packet = packet_begin(t, &p);
		data = proto_begin(&p, PF_INTERNED_DATA);
		put_iid(&p, PF_EVENT_NAMES, name_iid(i), w->name);
		for (unsigned k = 0; k < TRACE_ARGS && w->arg[k]; k++)
			put_iid(&p, PF_ARGUMENT_NAMES, argument_iid(i, k),
				w->arg[k]);
		proto_end(&p, data);
		packet_end(t, &p, packet);
	}
	for (uint32_t i = 0; i < t->texts; i++)
		write_text(t, i + 1);
	write_process(t, UUID_HOST, getpid(), "tandem");
	if (t->phone)
		write_phone(t);
	if (t->device)
		write_process(t, t->device, t->device_pid, "tandem-npu");
	for (unsigned i = 0; i < t->threads; i++)
		write_thread(t, i);
	memset(t->described_track, 0, sizeof(t->described_track));
	memset(t->described_counter, 0, sizeof(t->described_counter));
}

static void turn(struct trace *t)
{
	const struct trace_event left = { .type = TRACE_INSTANT,
		.name = TRACE_ROTATED,
		.track = TRACE_ON_FILE,
		.at = clock_ns(),
		.n = 1,
		.arg = { t->file.rotated + t->file.packets } };

	trace_file_turn(&t->file);
	if (t->file.failed)
		return;
	begin_file(t);

	/* Repeat the begin events of open slices, with their original times.
	 * begin_file has already described the tracks of host threads. */
	for (size_t i = 0; i < t->n_open; i++) {
		const struct open_slice *s = &t->open[i];

		if (s->event.track != TRACE_ON_THREAD)
			track_of(t, &s->event);
		write_event(t, s->track, s->ns, &s->event);
	}

	record(t, &left);
}

/* ---- recording events for other source files ----------------------------- */

void trace_emit_held(struct trace *t, const struct trace_event *v)
{
	if (trace_file_is_full(&t->file))
		turn(t);
	if (!t->file.failed)
		record(t, v);
}

void trace_emit(struct trace *t, const struct trace_event *v)
{
	pthread_mutex_lock(&t->lock);
	trace_emit_held(t, v);
	pthread_mutex_unlock(&t->lock);
}

pthread_mutex_t *trace_lock(struct trace *t)
{
	return &t->lock;
}

void trace_flush(struct trace *t, size_t least)
{
	pthread_mutex_lock(&t->lock);
	if (t->file.used >= least)
		trace_file_flush(&t->file);
	pthread_mutex_unlock(&t->lock);
}

/* Returns the number of a flow (a link between events). The writer and the
 * reader of a buffer compute the same number: it consists of the FNV-1a hash of
 * the buffer's name and the number of the write. */
uint64_t trace_write_flow(const char *buffer, uint32_t cpu_seq)
{
	uint32_t hash = 2166136261u;

	for (; *buffer; buffer++)
		hash = (hash ^ (uint8_t)*buffer) * 16777619u;
	return (uint64_t)(hash | 1u << 31) << 32 | cpu_seq;
}

/* ---- opening and closing ------------------------------------------------- */

static int trace_free(struct trace *t, struct err *e)
{
	int ret = trace_file_close(&t->file, e);

	pthread_mutex_destroy(&t->lock);
	for (uint32_t i = 0; i < t->texts; i++)
		free(t->text[i]);
	free(t->phone);
	free(t->open);
	free(t);
	return ret;
}

int trace_open(
	struct trace **out, const char *path, uint64_t limit, struct err *e)
{
	struct trace *t = calloc(1, sizeof(*t));
	int ret;
	pthread_mutexattr_t again;

	if (!t)
		return err_set(e, ENOMEM, "no memory for a trace");

	/* The lock must be recursive, because a thread that holds it
	 * (trace_lock) also calls functions that take it, such as
	 * trace_text. */
	pthread_mutexattr_init(&again);
	pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&t->lock, &again);
	pthread_mutexattr_destroy(&again);

	ret = trace_file_open(&t->file, path, limit, e);
	if (ret) {
		trace_free(t, NULL);
		return ret;
	}
	begin_file(t);
	*out = t;
	return 0;
}

int trace_close(struct trace *t, struct err *e)
{
	return t ? trace_free(t, e) : 0;
}
