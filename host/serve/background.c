/* The background threads, which parse and tokenize large bodies of HTTP
 * requests. An exchange is one HTTP request and its answer; the connection
 * thread is the thread of libmicrohttpd (server_impl.h). */
#include "base/err.h"
#include "host/serve/server_impl.h"

/* Refuse a request because the server is stopping, and resume the connection of
 * the request. */
static void refuse(struct exchange *x)
{
	fault_stopping(&x->fault);
	engines_release(x);
	exchange_set_preparing(x, false);
}

/* The function of each background thread: handle queued HTTP requests. After
 * background_close was called, refuse the requests left in the queue. */
static void *work(void *arg)
{
	struct server *s = arg;
	struct background *b = &s->background;

	pthread_mutex_lock(&b->lock);
	for (;;) {
		struct exchange *x = b->first;
		bool closing = b->closing;

		if (!x && closing)
			break;
		if (!x) {
			pthread_cond_wait(&b->work, &b->lock);
			continue;
		}
		b->first = x->queue_next;
		pthread_mutex_unlock(&b->lock);
		if (!closing) {
			if (exchange_call_route(x))
				exchange_set_preparing(x, false);
		} else {
			refuse(x);
		}
		pthread_mutex_lock(&b->lock);
	}
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

int background_open(struct server *s, struct err *e)
{
	struct background *b = &s->background;

	for (; b->n < BACKGROUND_THREADS; b->n++) {
		int ret = pthread_create(&b->thread[b->n], NULL, work, s);

		if (ret)
			return err_sys(e, ret,
				"cannot start a tokenizer thread; check the "
				"free memory and ulimit -u");
	}
	return 0;
}

bool background_add(struct exchange *x, bool suspends)
{
	struct background *b = &x->server->background;
	struct exchange **end = &b->first;
	bool closing;

	pthread_mutex_lock(&b->lock);
	closing = b->closing;
	if (!closing) {
		/* Suspend the connection before the exchange (the HTTP request)
		 * is queued: once the exchange is in the queue, a background
		 * thread may resume the connection. */
		if (suspends)
			exchange_set_preparing(x, true);
		while (*end)
			end = &(*end)->queue_next;
		x->queue_next = NULL;
		*end = x;
		pthread_cond_signal(&b->work);
	}
	pthread_mutex_unlock(&b->lock);
	return !closing;
}

/* The connection thread may call this function after background_close, for a
 * stream whose engine was opened shortly before background_close. No background
 * thread runs then, so the request is refused. */
void background_again(struct exchange *x)
{
	if (!background_add(x, false))
		refuse(x);
}

void background_close(struct server *s)
{
	struct background *b = &s->background;

	pthread_mutex_lock(&b->lock);
	b->closing = true;
	pthread_cond_broadcast(&b->work);
	pthread_mutex_unlock(&b->lock);
	while (b->n)
		pthread_join(b->thread[--b->n], NULL);
}
