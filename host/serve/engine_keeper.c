/* The keeper: the thread that opens engines, and closes idle engines to free
 * memory for other engines. */
#include "host/serve/engines_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/api/report.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define MIB     ((double)(1 << 20))
#define FOREVER 3600000000000ull

static bool is_idle(const struct engine_entry *e)
{
	return e->phase == ENGINE_LOADED && !e->holds && !e->engine->first;
}

/* Time of the last use of an idle engine. */
static uint64_t last_use(const struct engine_entry *e)
{
	return e->used_ns > e->engine->idle_ns ? e->used_ns
					       : e->engine->idle_ns;
}

/* ---- opening engines ----------------------------------------------------- */

void entry_refuse_waiting(struct engine_entry *e, const struct fault *f)
{
	struct exchange *next;

	for (struct exchange *x = e->waiting; x; x = next) {
		next = x->queue_next;
		exchange_refuse_waiting(x, f);
	}
	e->waiting = NULL;
}

void engines_close_handle(struct engines *g, struct tandem *t)
{
	struct err e = { 0 };
	int ret = tandem_end(t, &e);

	if (!ret || g->ret)
		return;
	g->ret = ret;
	if (!g->why)
		g->why = malloc(sizeof(*g->why));
	if (g->why)
		*g->why = e;
}

int entry_take_handle(struct server *s, struct engine_entry *e,
	struct tandem *t, uint64_t need, struct err *why)
{
	struct engines *g = &s->engines;
	struct tandem_report r;
	int ret;

	tandem_report(t, &r);
	ret = engine_open(&e->engine, t, &e->offer,
		r.shares ? s->options.texts : 1, s->options.queue, &s->lock,
		why);
	if (ret)
		return ret;
	e->engine->idle = &g->work;
	e->phase = ENGINE_LOADED;
	e->yields = false;
	e->need = need;
	e->opened = ++g->tickets;
	e->used_ns = clock_ns();
	g->facts[e->model] =
		(struct engine_facts){ e->engine->context, r.kind, r.chats };
	return 0;
}

/* ---- closing engines ----------------------------------------------------- */

/* Close an engine that is idle or whose device is lost, and free the entry if
 * it is no longer used. The caller holds the lock; this function releases the
 * lock while the engine stops. */
static void close_engine(struct server *s, struct engine_entry *e)
{
	struct engine *engine = e->engine;
	struct tandem *t = engine->tandem;

	e->phase = ENGINE_CLOSING;
	pthread_mutex_unlock(&s->lock);
	engine_stop(engine);
	engines_close_handle(&s->engines, t);
	pthread_mutex_lock(&s->lock);
	metrics_add(&e->past, &engine->state);
	e->engine = NULL;
	e->need = 0;
	e->phase = e->waiting ? ENGINE_QUEUED : ENGINE_UNLOADED;
	engine_close(engine);
	entry_forget_unused(&s->engines, e);
}

/* ---- freeing memory for another engine ----------------------------------- */

/* Wait until the state of any engine changes, but at most `ns` nanoseconds. */
static void wait_for(struct server *s, uint64_t ns)
{
	uint64_t until = clock_ns() + ns;
	const struct timespec t = { (time_t)(until / 1000000000u),
		(long)(until % 1000000000u) };

	pthread_cond_timedwait(&s->engines.work, &s->lock, &t);
}

/* Close other engines until the engine of entry `e`, which takes `need` bytes
 * of memory, can be opened within the limits. The caller holds the lock.
 * Returns 0 or a negative errno. */
static int make_room(struct server *s, const struct engine_entry *e,
	uint64_t need, struct err *why)
{
	struct engines *g = &s->engines;
	uint64_t bound = s->options.memory;

	for (;;) {
		uint64_t used = 0, pinned = 0;
		unsigned open = 0;
		struct engine_entry *idle = NULL, *oldest = NULL;
		bool yields = false;

		if (g->closing)
			return -ESHUTDOWN;
		if (!e->waiting)
			return -ECANCELED;
		for (struct engine_entry *o = g->first; o; o = o->next) {
			open += o->engine != NULL;
			used += o->need;
			pinned += o->pinned ? o->need : 0;
			if (o->pinned)
				continue;
			if (is_idle(o) &&
				(!idle || last_use(o) < last_use(idle)))
				idle = o;
			if (o->phase != ENGINE_LOADED)
				continue;
			yields |= o->yields;
			if (!oldest || o->opened < oldest->opened)
				oldest = o;
		}
		if (bound && need + pinned > bound)
			return err_set(why, ENOMEM,
				"the model needs %.1f MiB of memory, but the "
				"limit of this server is %.1f MiB "
				"(--memory)%s; try a larger --memory, a "
				"smaller --ctx or fewer --texts",
				(double)need / MIB, (double)bound / MIB,
				pinned ? ", part of it for the model on D-Bus"
				       : "");
		if (open < ENGINES_OPEN_MAX && (!bound || used + need <= bound))
			return 0;
		/* Close the idle engine that was used least recently. If none
		 * is idle, the engine that has been open for the longest time
		 * yields: this engine accepts no new requests, so that it
		 * becomes idle. Neither is ever the pinned engine. Only one
		 * engine yields at a time. */
		if (idle) {
			close_engine(s, idle);
		} else {
			if (oldest && !yields)
				oldest->yields = true;
			wait_for(s, FOREVER);
		}
	}
}

/* ---- the tasks of the keeper --------------------------------------------- */

/* The engine is open: let the requests that wait for this engine continue. The
 * caller holds the lock. This function releases the lock while it hands a
 * request to a background thread. */
static void end_waiting(struct server *s, struct engine_entry *e)
{
	/* First let all waiting requests hold the engine, so that it is not
	 * closed before they use it. */
	for (struct exchange *x = e->waiting; x; x = x->queue_next) {
		x->engine = e->engine;
		x->held = true;
		e->holds++;
	}
	while (e->waiting) {
		struct exchange *x = e->waiting;
		bool again;

		e->waiting = x->queue_next;
		again = exchange_end_waiting(x);
		pthread_mutex_unlock(&s->lock);
		if (again)
			background_again(x);
		pthread_mutex_lock(&s->lock);
	}
}

/* Open an engine, and let its requests continue. The caller holds the lock;
 * this function releases it while the model is loaded. */
static void load(struct server *s, struct engine_entry *e)
{
	struct engines *g = &s->engines;
	struct tandem_options o = s->options.handle;
	struct fault f = { 0 };
	struct err why = { 0 };
	struct tandem *t = NULL;
	uint64_t need = 0;
	int ret;

	e->phase = ENGINE_LOADING;
	pthread_mutex_unlock(&s->lock);
	o.size = sizeof(o);
	o.set = (const char *const *)e->choice;
	ret = tandem_create(&t, &o, NULL, &why);
	if (!ret && tandem_read_model(t, g->models.model[e->model].path))
		ret = tandem_failure(t, &why);
	if (!ret)
		ret = tandem_need(t, s->options.context, &need, &why);
	pthread_mutex_lock(&s->lock);
	if (!ret)
		ret = make_room(s, e, need, &why);
	g->loading = t;
	pthread_mutex_unlock(&s->lock);
	if (!ret && tandem_start(t, s->options.context))
		ret = tandem_failure(t, &why);
	pthread_mutex_lock(&s->lock);
	g->loading = NULL;
	if (!ret && !g->closing)
		ret = entry_take_handle(s, e, t, need, &why);
	else if (!ret)
		ret = -ESHUTDOWN;
	if (ret) {
		if (g->closing)
			fault_stopping(&f);
		else
			fault_set(&f, ret == -EINVAL && e->chosen ? 400 : 500,
				"model_failed", "model",
				"cannot open model '%s': %s", e->offer.model,
				why.text);
		/* Do not change the phase before the handle is closed:
		 * otherwise the entry would be freed when the last of its
		 * requests is refused. */
		entry_refuse_waiting(e, &f);
		pthread_mutex_unlock(&s->lock);
		if (t)
			tandem_end(t, NULL);
		pthread_mutex_lock(&s->lock);
		e->phase = e->waiting ? ENGINE_QUEUED : ENGINE_UNLOADED;
		entry_forget_unused(g, e);
		return;
	}
	end_waiting(s, e);
}

/* Do the next pending task. Returns false if there is no task; *ns is then the
 * time until the next engine has been idle for too long and must be closed, or
 * FOREVER. */
static bool keep(struct server *s, uint64_t *ns)
{
	uint64_t now = clock_ns();
	uint64_t most = 1000000000ull * s->options.idle_unload_s;
	struct engine_entry *next = NULL;

	*ns = FOREVER;
	for (struct engine_entry *e = s->engines.first; e; e = e->next) {
		bool lost = e->engine && e->engine->state.lost;
		uint64_t since;

		if (e->yields && entry_is_open(e)) {
			/* The engine was to be closed to make room for another
			 * engine, but a different engine was closed first. So
			 * this engine stays open and accepts requests again. */
			e->yields = false;
			end_waiting(s, e);
			return true;
		}
		if (e->phase == ENGINE_QUEUED && !e->waiting) {
			e->phase = ENGINE_UNLOADED;
			entry_forget_unused(&s->engines, e);
			return true;
		}
		if (e->phase == ENGINE_QUEUED &&
			(!next || e->ticket < next->ticket))
			next = e;
		if (!is_idle(e) || e->pinned)
			continue;
		since = now - last_use(e);
		if ((lost && s->engines.several) || (most && since >= most)) {
			close_engine(s, e);
			return true;
		}
		if (most && most - since < *ns)
			*ns = most - since;
	}
	if (next)
		load(s, next);
	return next;
}

void *engines_keep(void *arg)
{
	struct server *s = arg;
	struct engines *g = &s->engines;
	struct fault f = { 0 };
	uint64_t ns;

	pthread_mutex_lock(&s->lock);
	while (!g->closing)
		if (!keep(s, &ns) && !g->closing)
			wait_for(s, ns);
	fault_stopping(&f);
	for (struct engine_entry *e = g->first; e; e = e->next)
		entry_refuse_waiting(e, &f);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}
