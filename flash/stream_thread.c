#include "flash/stream_read.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct queue {
	struct block *first, *last;
};

struct threaded {
	struct reader reader;
	int fd;
	pthread_t thread;
	pthread_mutex_t lock;      /* of all that follows */
	pthread_cond_t work, back; /* something in todo; in done */
	struct queue todo, done;
	bool stop;
};

static struct threaded *threaded_of(struct reader *r)
{
	return (struct threaded *)r;
}

static void queue_put(struct queue *q, struct block *b)
{
	b->next = NULL;
	if (q->first)
		q->last->next = b;
	else
		q->first = b;
	q->last = b;
}

static struct block *queue_get(struct queue *q)
{
	struct block *b = q->first;

	if (b)
		q->first = b->next;
	return b;
}

/* Take a certain one out, if it is there. */
static bool queue_remove(struct queue *q, const struct block *b)
{
	struct queue rest = { NULL, NULL };
	bool found = false;

	for (struct block *i = queue_get(q); i; i = queue_get(q)) {
		if (i == b)
			found = true;
		else
			queue_put(&rest, i);
	}
	*q = rest;
	return found;
}

static void *read_blocks(void *arg)
{
	struct threaded *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		struct block *b = queue_get(&t->todo);
		ssize_t n;

		if (!b) {
			pthread_cond_wait(&t->work, &t->lock);
			continue;
		}
		pthread_mutex_unlock(&t->lock);
		n = pread(t->fd, b->dst, b->len, (off_t)b->off);
		b->res = n < 0 ? -errno : n;
		pthread_mutex_lock(&t->lock);
		queue_put(&t->done, b);
		pthread_cond_signal(&t->back);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static int threaded_add_areas(
	struct reader *r, const struct iovec *areas, unsigned n)
{
	return 0; /* pread wants none */
}

static void threaded_submit(struct reader *r, struct block *b)
{
	struct threaded *t = threaded_of(r);

	pthread_mutex_lock(&t->lock);
	queue_put(&t->todo, b);
	pthread_cond_signal(&t->work);
	pthread_mutex_unlock(&t->lock);
}

static void threaded_flush(struct reader *r)
{
}

static struct block *threaded_take(struct reader *r, uint64_t wait_ns)
{
	struct threaded *t = threaded_of(r);
	uint64_t until = clock_ns() + wait_ns;
	struct timespec at = {
		.tv_sec = (time_t)(until / 1000000000u),
		.tv_nsec = (long)(until % 1000000000u),
	};
	struct block *b;
	int late = wait_ns ? 0 : ETIMEDOUT;

	pthread_mutex_lock(&t->lock);
	while (!(b = queue_get(&t->done)) && !late)
		late = pthread_cond_timedwait(&t->back, &t->lock, &at);
	pthread_mutex_unlock(&t->lock);
	return b;
}

/* What the thread is at goes its way. */
static void threaded_cancel(struct reader *r, struct block *b)
{
	struct threaded *t = threaded_of(r);

	pthread_mutex_lock(&t->lock);
	if (queue_remove(&t->todo, b)) {
		b->res = -ECANCELED;
		queue_put(&t->done, b);
	}
	pthread_mutex_unlock(&t->lock);
}

static void threaded_close(struct reader *r, bool abandon)
{
	struct threaded *t = threaded_of(r);

	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_signal(&t->work);
	pthread_mutex_unlock(&t->lock);
	if (abandon) {
		pthread_detach(t->thread);
		return;
	}
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->back);
	pthread_cond_destroy(&t->work);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static const struct reader_ops threaded_ops = {
	.add_areas = threaded_add_areas,
	.submit = threaded_submit,
	.flush = threaded_flush,
	.take = threaded_take,
	.cancel = threaded_cancel,
	.close = threaded_close,
};

/* Signals are for the program's own threads. */
static int start_quiet(struct threaded *t)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&t->thread, NULL, read_blocks, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -ret;
}

int reader_open_thread(struct reader **out, int fd)
{
	struct threaded *t = calloc(1, sizeof(*t));
	pthread_condattr_t monotonic;
	int ret;

	if (!t)
		return -ENOMEM;
	t->reader.ops = &threaded_ops;
	t->fd = fd;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, NULL);
	pthread_cond_init(&t->back, &monotonic);
	pthread_condattr_destroy(&monotonic);
	ret = start_quiet(t);
	if (ret)
		free(t);
	else
		*out = &t->reader;
	return ret;
}
