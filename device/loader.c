#include "device/loader.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/hugemem.h"
#include "device/exec.h"
#include "device/graph.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct queue {
	struct load *first, **end;
};

struct loader {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct queue todo, done;
	unsigned pending; /* submitted and not yet taken back */
	bool stop;
};

static void push(struct queue *q, struct load *l)
{
	l->next = NULL;
	*q->end = l;
	q->end = &l->next;
}

static struct load *pop(struct queue *q)
{
	struct load *l = q->first;

	if (l) {
		q->first = l->next;
		if (!q->first)
			q->end = &q->first;
	}
	return l;
}

static void build(struct load *l)
{
	l->began_ns = clock_ns();
	l->plan = graph_build(l->msg, l->len, l->threads);
	if (l->plan && l->arena_bytes)
		l->arena = hugemem_alloc(l->arena_bytes);
	l->busy_ns = clock_ns() - l->began_ns;
}

static void *loader_main(void *arg)
{
	struct loader *ld = arg;

	pthread_mutex_lock(&ld->lock);
	while (!ld->stop) {
		struct load *l = pop(&ld->todo);

		if (!l) {
			pthread_cond_wait(&ld->changed, &ld->lock);
			continue;
		}
		pthread_mutex_unlock(&ld->lock);
		build(l);
		pthread_mutex_lock(&ld->lock);
		push(&ld->done, l);
		pthread_cond_broadcast(&ld->changed);
	}
	pthread_mutex_unlock(&ld->lock);
	return NULL;
}

int loader_open(struct loader **out, struct err *e)
{
	struct loader *ld = calloc(1, sizeof(*ld));
	int ret;

	if (!ld)
		return err_set(e, ENOMEM, "no memory for the loader");
	ld->todo.end = &ld->todo.first;
	ld->done.end = &ld->done.first;
	pthread_mutex_init(&ld->lock, NULL);
	pthread_cond_init(&ld->changed, NULL);
	ret = pthread_create(&ld->thread, NULL, loader_main, ld);
	if (ret) {
		pthread_cond_destroy(&ld->changed);
		pthread_mutex_destroy(&ld->lock);
		free(ld);
		return err_sys(e, ret,
			"cannot start the loader's thread (for want of memory, "
			"or by ulimit -u)");
	}
	*out = ld;
	return 0;
}

void loader_close(struct loader *ld)
{
	struct load *l;

	if (!ld)
		return;
	pthread_mutex_lock(&ld->lock);
	ld->stop = true;
	pthread_cond_broadcast(&ld->changed);
	pthread_mutex_unlock(&ld->lock);
	pthread_join(ld->thread, NULL);
	while ((l = pop(&ld->todo)) || (l = pop(&ld->done)))
		load_free(l);
	pthread_cond_destroy(&ld->changed);
	pthread_mutex_destroy(&ld->lock);
	free(ld);
}

void loader_submit(struct loader *ld, struct load *l)
{
	pthread_mutex_lock(&ld->lock);
	push(&ld->todo, l);
	ld->pending++;
	pthread_cond_broadcast(&ld->changed);
	pthread_mutex_unlock(&ld->lock);
}

struct load *loader_take(struct loader *ld, bool wait)
{
	struct load *l;

	pthread_mutex_lock(&ld->lock);
	while (!(l = pop(&ld->done)) && wait && ld->pending)
		pthread_cond_wait(&ld->changed, &ld->lock);
	if (l)
		ld->pending--;
	pthread_mutex_unlock(&ld->lock);
	return l;
}

void load_free(struct load *l)
{
	hugemem_free(l->arena);
	free(l->plan);
	free(l->msg);
	free(l);
}
