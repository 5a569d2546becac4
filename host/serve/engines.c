#include "host/serve/engines.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/opt.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/serve/prepare.h"
#include "host/serve/server_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB     ((double)(1 << 20))
#define FOREVER 3600000000000ull

const char *const engine_phases[] = {
	[ENGINE_UNLOADED] = "unloaded",
	[ENGINE_QUEUED] = "loading",
	[ENGINE_LOADING] = "loading",
	[ENGINE_LOADED] = "loaded",
	[ENGINE_CLOSING] = "unloaded",
};

static void lock(struct server *s)
{
	pthread_mutex_lock(&s->lock);
}

static void unlock(struct server *s)
{
	pthread_mutex_unlock(&s->lock);
}

/* ---- entries ------------------------------------------------------------- */

static bool is_open(const struct engine_entry *e)
{
	return e->phase == ENGINE_LOADED && !e->engine->state.lost;
}

/* Whether a new request may hold the engine. */
static bool is_ready(const struct engine_entry *e)
{
	return is_open(e) && !e->yields;
}

static bool is_idle(const struct engine_entry *e)
{
	return e->phase == ENGINE_LOADED && !e->holds && !e->engine->first;
}

/* When an idle engine was last used. */
static uint64_t last_use(const struct engine_entry *e)
{
	return e->used_ns > e->engine->idle_ns ? e->used_ns
					       : e->engine->idle_ns;
}

static void entry_free(struct engine_entry *e)
{
	if (e->chosen)
		engine_choice_free(e->choice);
	free(e);
}

/* Free an entry that nobody needs any more. Its counters go to another entry of
 * the same model and method, so that no sum becomes less; the last such entry
 * stays. */
static void forget_unused(struct engines *g, struct engine_entry *e)
{
	struct engine_entry **at = &g->first, *heir = g->first;

	if (!e->chosen || e->refs || e->phase != ENGINE_UNLOADED)
		return;
	while (heir &&
		(heir == e || heir->model != e->model ||
			strcmp(heir->offer.method, e->offer.method)))
		heir = heir->next;
	if (!heir)
		return;
	metrics_add(&heir->past, &e->past);
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	entry_free(e);
}

static struct engine_entry *find(
	struct engines *g, size_t model, char *const *choice)
{
	struct engine_entry *e = g->first;

	while (e &&
		(e->model != model || !engine_choice_same(e->choice, choice)))
		e = e->next;
	return e;
}

/* Append an entry. With `choice` NULL it has the server's own; otherwise it
 * takes the choice on success. */
static struct engine_entry *add(struct engines *g, size_t model, char **choice,
	const struct engine_offer *offer)
{
	struct engine_entry *e = calloc(1, sizeof(*e)), **at = &g->first;

	if (!e)
		return NULL;
	e->model = model;
	e->choice = choice ? choice : g->own;
	e->chosen = choice;
	e->offer = *offer;
	e->offer.model = g->models.model[model].name;
	while (*at)
		at = &(*at)->next;
	*at = e;
	return e;
}

/* ---- opening ------------------------------------------------------------- */

/* Refuse all requests that wait for the entry. */
static void refuse_waiting(struct engine_entry *e, const struct fault *f)
{
	struct exchange *next;

	for (struct exchange *x = e->waiting; x; x = next) {
		next = x->queue_next;
		exchange_refuse_waiting(x, f);
	}
	e->waiting = NULL;
}

/* Keep the first error of closing a handle, such as violations that the
 * coherence checker found. */
static void close_handle(struct engines *g, struct tandem *t)
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

/* Create the handle of an entry, and read its model. */
static int create(struct server *s, const struct engine_entry *e,
	struct tandem **t, uint64_t *need, struct err *why)
{
	struct tandem_options o = s->options.handle;
	int ret;

	o.size = sizeof(o);
	o.set = (const char *const *)e->choice;
	ret = tandem_create(t, &o, NULL, why);
	if (!ret &&
		tandem_read_model(*t, s->engines.models.model[e->model].path))
		ret = tandem_failure(*t, why);
	if (!ret)
		ret = tandem_need(*t, s->options.context, need, why);
	return ret;
}

/* Start the thread of an engine whose handle is started. The caller holds the
 * lock. */
static int take_handle(struct server *s, struct engine_entry *e,
	struct tandem *t, uint64_t need, struct err *why)
{
	struct engines *g = &s->engines;
	struct tandem_report r;
	int ret;

	tandem_report(t, &r);
	e->lanes = r.shares ? s->options.texts : 1;
	ret = engine_open(&e->engine, t, &e->offer, e->lanes, s->options.queue,
		&s->lock, why);
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

/* ---- closing ------------------------------------------------------------- */

/* Close an idle engine, or one whose device is lost. The caller holds the lock,
 * which is released in between. */
static void close_engine(struct server *s, struct engine_entry *e)
{
	struct engine *engine = e->engine;
	struct tandem *t = engine->tandem;

	e->phase = ENGINE_CLOSING;
	unlock(s);
	engine_stop(engine);
	close_handle(&s->engines, t);
	lock(s);
	metrics_add(&e->past, &engine->state);
	e->engine = NULL;
	e->need = 0;
	e->phase = e->waiting ? ENGINE_QUEUED : ENGINE_UNLOADED;
	engine_close(engine);
}

/* ---- room ---------------------------------------------------------------- */

/* The idle engine that was used least recently, or NULL. */
static struct engine_entry *least_used(struct engines *g)
{
	struct engine_entry *least = NULL;

	for (struct engine_entry *e = g->first; e; e = e->next)
		if (is_idle(e) && !e->pinned &&
			(!least || last_use(e) < last_use(least)))
			least = e;
	return least;
}

/* Let the engine that is open for the longest time yield, unless one does. */
static void make_one_yield(struct engines *g)
{
	struct engine_entry *oldest = NULL;

	for (struct engine_entry *e = g->first; e; e = e->next) {
		if (e->phase != ENGINE_LOADED || e->pinned)
			continue;
		if (e->yields)
			return;
		if (!oldest || e->opened < oldest->opened)
			oldest = e;
	}
	if (oldest)
		oldest->yields = true;
}

/* Wait until the state of an engine has changed, or for `ns`. */
static void wait_for(struct server *s, uint64_t ns)
{
	uint64_t until = clock_ns() + ns;
	const struct timespec t = { (time_t)(until / 1000000000u),
		(long)(until % 1000000000u) };

	pthread_cond_timedwait(&s->engines.work, &s->lock, &t);
}

/* Close other engines until there is room for one more. The caller holds the
 * lock. */
static int make_room(struct server *s, const struct engine_entry *e,
	uint64_t need, struct err *why)
{
	struct engines *g = &s->engines;
	uint64_t bound = s->options.memory;

	for (;;) {
		uint64_t used = 0, pinned = 0;
		unsigned open = 0;
		struct engine_entry *idle;

		if (g->closing)
			return -ESHUTDOWN;
		if (!e->waiting)
			return -ECANCELED;
		for (struct engine_entry *o = g->first; o; o = o->next) {
			open += o->engine != NULL;
			used += o->need;
			pinned += o->pinned ? o->need : 0;
		}
		if (bound && need + pinned > bound)
			return err_set(why, ENOMEM,
				"it needs %.1f MiB of memory, and this server "
				"may use %.1f MiB (--memory)%s; try a smaller "
				"--ctx or fewer --texts",
				(double)need / MIB, (double)bound / MIB,
				pinned ? ", part of it for the model on D-Bus"
				       : "");
		if (open < ENGINES_OPEN_MAX && (!bound || used + need <= bound))
			return 0;
		idle = least_used(g);
		if (idle) {
			close_engine(s, idle);
			forget_unused(g, idle);
		} else {
			make_one_yield(g);
			wait_for(s, FOREVER);
		}
	}
}

/* ---- the keeper ---------------------------------------------------------- */

/* Let the requests that wait for an open engine go on. The caller holds the
 * lock, which is released in between. */
static void end_waiting(struct server *s, struct engine_entry *e)
{
	/* The requests hold the engine at once, so that it is not closed before
	 * they use it. */
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
		unlock(s);
		if (again)
			background_again(x);
		lock(s);
	}
}

/* Open an engine, and let its requests go on. The caller holds the lock, which
 * is released in between. */
static void load(struct server *s, struct engine_entry *e)
{
	struct engines *g = &s->engines;
	struct fault f = { 0 };
	struct err why = { 0 };
	struct tandem *t = NULL;
	uint64_t need = 0;
	int ret;

	e->phase = ENGINE_LOADING;
	unlock(s);
	ret = create(s, e, &t, &need, &why);
	lock(s);
	if (!ret)
		ret = make_room(s, e, need, &why);
	g->loading = t;
	unlock(s);
	if (!ret && tandem_start(t, s->options.context))
		ret = tandem_failure(t, &why);
	lock(s);
	g->loading = NULL;
	if (!ret && !g->closing)
		ret = take_handle(s, e, t, need, &why);
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
		/* The phase stays until the handle is closed, so that the entry
		 * is not freed by the last of its requests. */
		refuse_waiting(e, &f);
		unlock(s);
		if (t)
			tandem_end(t, NULL);
		lock(s);
		e->phase = e->waiting ? ENGINE_QUEUED : ENGINE_UNLOADED;
		forget_unused(g, e);
		return;
	}
	end_waiting(s, e);
}

/* Do one thing that is to be done. Returns false if there is none; then *ns is
 * the time until an engine was idle for too long. */
static bool keep(struct server *s, uint64_t *ns)
{
	uint64_t now = clock_ns();
	uint64_t most = 1000000000ull * s->options.idle_unload_s;
	struct engine_entry *next = NULL;

	*ns = FOREVER;
	for (struct engine_entry *e = s->engines.first; e; e = e->next) {
		bool lost = e->engine && e->engine->state.lost;
		uint64_t since;

		if (e->yields && is_open(e)) {
			/* Another engine has made the room. */
			e->yields = false;
			end_waiting(s, e);
			return true;
		}
		if (e->phase == ENGINE_QUEUED && !e->waiting) {
			e->phase = ENGINE_UNLOADED;
			forget_unused(&s->engines, e);
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
			forget_unused(&s->engines, e);
			return true;
		}
		if (most && most - since < *ns)
			*ns = most - since;
	}
	if (next)
		load(s, next);
	return next;
}

static void *run(void *arg)
{
	struct server *s = arg;
	struct engines *g = &s->engines;
	struct fault f = { 0 };
	uint64_t ns;

	lock(s);
	while (!g->closing)
		if (!keep(s, &ns) && !g->closing)
			wait_for(s, ns);
	fault_stopping(&f);
	for (struct engine_entry *e = g->first; e; e = e->next)
		refuse_waiting(e, &f);
	unlock(s);
	return NULL;
}

/* ---- requests ------------------------------------------------------------ */

/* Find the model that a request names. */
static int find_model(
	struct engines *g, const char *name, size_t *out, struct fault *f)
{
	const struct model_list *l = &g->models;
	struct opt_nearest near = { .word = name };
	struct strbuf all = STRBUF_INIT;

	for (*out = 0; name && *out < l->n; ++*out)
		if (!strcmp(l->model[*out].name, name))
			return 0;
	*out = 0;
	if (!name && (g->has_first || l->n == 1))
		return 0;
	for (size_t i = 0; i < l->n; i++) {
		if (name)
			opt_nearest_offer(&near, l->model[i].name);
		strbuf_addf(&all, "%s'%s'", i ? ", " : "", l->model[i].name);
	}
	if (name)
		fault_set(f, 404, "model_not_found", "model",
			"there is no model '%.100s'; this server has %s%s",
			name, all.data ? all.data : "none",
			opt_nearest_clause(&near));
	else
		fault_set(f, 400, "missing_required_parameter", "model",
			"'model' is missing; this server has %s",
			all.data ? all.data : "");
	strbuf_release(&all);
	return -EINVAL;
}

/* Find or add the entry of a model and a choice, which is NULL for the server's
 * own; takes the choice in any case. Returns NULL with *f set, otherwise with
 * the lock held. */
static struct engine_entry *entry_for(
	struct server *s, size_t model, char **choice, struct fault *f)
{
	struct engines *g = &s->engines;
	struct engine_offer offer = g->menu.own;
	struct engine_entry *e;

	lock(s);
	e = find(g, model, choice ? choice : g->own);
	if (!e && choice) {
		/* The check reads files, so the lock is not held. */
		unlock(s);
		if (engine_choice_check(choice, &g->menu, &offer, f)) {
			engine_choice_free(choice);
			return NULL;
		}
		lock(s);
		e = find(g, model, choice);
	}
	if (e) {
		engine_choice_free(choice);
		return e;
	}
	e = add(g, model, choice, &offer);
	if (e)
		return e;
	unlock(s);
	engine_choice_free(choice);
	fault_no_memory(f);
	return NULL;
}

static void drop_entry(struct exchange *x)
{
	struct engine_entry *e = x->entry;

	x->entry = NULL;
	if (!e)
		return;
	e->refs--;
	forget_unused(&x->server->engines, e);
}

int engines_find(
	struct exchange *x, const struct api_request *q, struct fault *f)
{
	struct server *s = x->server;
	struct engines *g = &s->engines;
	struct engine_entry *e;
	char **choice;
	size_t model;
	int ret;

	if (x->held)
		return 0;
	ret = find_model(g, q->model, &model, f);
	if (!ret)
		ret = engine_choose(&choice, &g->menu, q, f);
	if (ret)
		return ret;
	e = entry_for(s, model, choice, f);
	if (!e)
		return -EINVAL;
	e->refs++;
	drop_entry(x);
	x->entry = e;
	if (is_ready(e)) {
		x->engine = e->engine;
		x->held = true;
		e->holds++;
	} else {
		/* Without its device the server ends (engines_lost). */
		x->must_wait =
			g->several || !e->engine || !e->engine->state.lost;
		ret = x->must_wait ? -EINPROGRESS : fault_stopping(f);
	}
	unlock(s);
	return ret;
}

bool engines_wait(struct exchange *x)
{
	struct server *s = x->server;
	struct engines *g = &s->engines;
	struct engine_entry *e = x->entry;
	struct exchange **end = &e->waiting;
	struct fault f = { 0 };
	bool waits;

	lock(s);
	x->must_wait = false;
	waits = !is_ready(e);
	if (waits) {
		exchange_begin_waiting(x);
		while (*end)
			end = &(*end)->queue_next;
		x->queue_next = NULL;
		*end = x;
		if (e->phase == ENGINE_UNLOADED) {
			e->phase = ENGINE_QUEUED;
			e->ticket = ++g->tickets;
		}
		pthread_cond_signal(&g->work);
	}
	if (waits && g->closing) {
		fault_stopping(&f);
		refuse_waiting(e, &f);
	}
	unlock(s);
	return waits;
}

void engines_release(struct exchange *x)
{
	struct server *s = x->server;

	if (!x->held)
		return;
	lock(s);
	x->held = false;
	x->entry->holds--;
	x->entry->used_ns = clock_ns();
	pthread_cond_signal(&s->engines.work);
	unlock(s);
}

void engines_leave(struct exchange *x)
{
	struct server *s = x->server;

	engines_release(x);
	lock(s);
	for (struct exchange **at = x->waiting ? &x->entry->waiting : NULL; at;)
		if (*at == x) {
			*at = x->queue_next;
			pthread_cond_signal(&s->engines.work);
			at = NULL;
		} else {
			at = &(*at)->queue_next;
		}
	drop_entry(x);
	unlock(s);
}

/* ---- the state ----------------------------------------------------------- */

struct engine *engines_first(struct server *s)
{
	return s->engines.has_first ? s->engines.first->engine : NULL;
}

int engines_check_first(
	struct server *s, const struct api_request *q, struct fault *f)
{
	struct engine_menu own = s->engines.menu;
	const char *name = s->engines.models.model[0].name;
	char **choice;

	if (q->model && strcmp(q->model, name) != 0)
		return fault_set(f, 404, "model_not_found", "model",
			"there is no model '%.100s' on D-Bus, only '%s'",
			q->model, name);
	own.methods = NULL;
	return engine_choose(&choice, &own, q, f);
}

bool engines_lost(struct server *s)
{
	const struct engine_entry *e = s->engines.first;

	return s->engines.has_first && (!s->engines.several || e->pinned) &&
		e->engine && e->engine->state.lost;
}

void engines_drop_gone(struct server *s)
{
	struct fault f = { 0 };

	fault_set(&f, 400, "canceled", NULL, "the client has gone");
	for (struct engine_entry *e = s->engines.first; e; e = e->next)
		for (struct exchange **at = &e->waiting; *at;) {
			struct exchange *x = *at;
			struct pollfd p = { .fd = x->fd, .events = POLLRDHUP };

			if (poll(&p, 1, 0) <= 0) {
				at = &x->queue_next;
				continue;
			}
			*at = x->queue_next;
			exchange_refuse_waiting(x, &f);
			pthread_cond_signal(&s->engines.work);
		}
}

enum engine_phase engines_phase(struct server *s, size_t model)
{
	enum engine_phase best = ENGINE_UNLOADED;

	for (struct engine_entry *e = s->engines.first; e; e = e->next)
		if (e->model == model && e->phase != ENGINE_CLOSING &&
			e->phase > best)
			best = e->phase;
	return best;
}

/* ---- opening and closing the server -------------------------------------- */

static int open_list(struct server *s, struct tandem *first, struct err *e)
{
	const struct server_options *o = &s->options;
	struct engines *g = &s->engines;
	struct tandem_report r;
	struct fault f = { 0 };
	int ret = 0;

	g->menu = (struct engine_menu){ o->values, o->methods, o->offer };
	g->several = o->models || o->methods;
	g->has_first = first;
	if (o->models) {
		g->models = *o->models;
	} else {
		tandem_report(first, &r);
		g->own_models = true;
		ret = model_list_add(
			&g->models, o->offer.model, r.model_path, e);
	}
	if (!ret && engine_choose(&g->own, &g->menu, NULL, &f))
		ret = err_set(e, ENOMEM, "%s", f.text);
	if (!ret) {
		g->facts = calloc(g->models.n, sizeof(*g->facts));
		if (!g->facts)
			ret = err_set(e, ENOMEM, "no memory for the server");
	}
	return ret;
}

int engines_open(
	struct server *s, struct tandem *first, uint64_t need, struct err *e)
{
	struct engines *g = &s->engines;
	struct engine_entry *entry = NULL;
	pthread_condattr_t clock;
	int ret;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&g->work, &clock);
	pthread_condattr_destroy(&clock);
	ret = open_list(s, first, e);
	if (!ret && first) {
		entry = add(g, 0, NULL, &s->options.offer);
		ret = entry ? take_handle(s, entry, first, need, e)
			    : err_set(e, ENOMEM, "no memory for the server");
	}
	if (ret || !entry)
		g->has_first &= !ret;
	if (ret && first && !(entry && entry->engine))
		close_handle(g, first);
	if (ret)
		return ret;
	if (entry)
		entry->pinned = s->options.bus != SERVER_BUS_NONE;
	ret = pthread_create(&g->keeper, NULL, run, s);
	if (ret)
		return err_sys(e, ret,
			"cannot start the thread that opens engines (out of "
			"memory, or ulimit -u)");
	g->keeps = true;
	return 0;
}

void engines_stop(struct server *s)
{
	struct engines *g = &s->engines;

	lock(s);
	g->closing = true;
	if (g->loading)
		tandem_cancel(g->loading);
	pthread_cond_signal(&g->work);
	unlock(s);
	if (g->keeps)
		pthread_join(g->keeper, NULL);
	g->keeps = false;
	for (struct engine_entry *e = g->first; e; e = e->next)
		engine_stop(e->engine);
}

int engines_close(struct server *s, struct err *e)
{
	struct engines *g = &s->engines;
	struct engine_entry *next;
	int ret;

	for (struct engine_entry *x = g->first; x; x = next) {
		struct tandem *t = x->engine ? x->engine->tandem : NULL;

		next = x->next;
		engine_close(x->engine);
		if (t)
			close_handle(g, t);
		entry_free(x);
	}
	ret = g->ret;
	if (g->why)
		*e = *g->why;
	else if (ret)
		err_set(e, -ret, "an engine was not closed properly");
	free(g->why);
	free(g->facts);
	engine_choice_free(g->own);
	if (g->own_models)
		model_list_release(&g->models);
	pthread_cond_destroy(&g->work);
	return ret;
}
