/*
 * The list of engines: finds the engine that a request names, makes requests
 * wait until their engine is open, and starts and stops all engines. An entry
 * of the list remains while its engine is closed.
 */
#include "host/serve/engines_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/opt.h"
#include "host/api/report.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

const char *const engine_phases[] = {
	[ENGINE_UNLOADED] = "unloaded",
	[ENGINE_QUEUED] = "loading",
	[ENGINE_LOADING] = "loading",
	[ENGINE_LOADED] = "loaded",
	[ENGINE_CLOSING] = "unloaded",
};

/* ---- the list of engines ------------------------------------------------- */

/* Whether the engine is open and accepts new requests. */
static bool is_ready(const struct engine_entry *e)
{
	return entry_is_open(e) && !e->yields;
}

static void entry_free(struct engine_entry *e)
{
	if (e->chosen)
		engine_choice_free(e->choice);
	free(e);
}

void entry_forget_unused(struct engines *g, struct engine_entry *e)
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

/* Append an entry for an engine with the settings `choice` (NULL: the server's
 * own settings). The entry takes ownership of `choice` on success. */
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

/* ---- the engine of a request --------------------------------------------- */

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
			"there is no model '%.100s'; this server offers %s%s",
			name, all.data ? all.data : "none",
			opt_nearest_clause(&near));
	else
		fault_set(f, 400, "missing_required_parameter", "model",
			"'model' is missing; this server offers %s",
			all.data ? all.data : "");
	strbuf_release(&all);
	return -EINVAL;
}

/* Find or add the entry of the engine with this model and these settings.
 * `choice` is NULL for the server's own settings; otherwise this function takes
 * ownership of `choice`, also after a failure. On success the lock is held on
 * return. Returns NULL after a failure, with *f set and without the lock. */
static struct engine_entry *entry_for(
	struct server *s, size_t model, char **choice, struct fault *f)
{
	struct engines *g = &s->engines;
	struct engine_offer offer = g->menu.own;
	struct engine_entry *e;

	pthread_mutex_lock(&s->lock);
	e = find(g, model, choice ? choice : g->own);
	if (!e && choice) {
		/* Release the lock during the check, because the check reads
		 * files. */
		pthread_mutex_unlock(&s->lock);
		if (engine_choice_check(choice, &g->menu, &offer, f)) {
			engine_choice_free(choice);
			return NULL;
		}
		pthread_mutex_lock(&s->lock);
		e = find(g, model, choice);
	}
	if (e) {
		engine_choice_free(choice);
		return e;
	}
	e = add(g, model, choice, &offer);
	if (e)
		return e;
	pthread_mutex_unlock(&s->lock);
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
	entry_forget_unused(&x->server->engines, e);
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
		/* If this is the server's only engine and its device is lost,
		 * the server is about to end (engines_lost), so refuse the
		 * request. */
		x->must_wait =
			g->several || !e->engine || !e->engine->state.lost;
		ret = x->must_wait ? -EINPROGRESS : fault_stopping(f);
	}
	pthread_mutex_unlock(&s->lock);
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

	pthread_mutex_lock(&s->lock);
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
		entry_refuse_waiting(e, &f);
	}
	pthread_mutex_unlock(&s->lock);
	return waits;
}

void engines_release(struct exchange *x)
{
	struct server *s = x->server;

	if (!x->held)
		return;
	pthread_mutex_lock(&s->lock);
	x->held = false;
	x->entry->holds--;
	x->entry->used_ns = clock_ns();
	pthread_cond_signal(&s->engines.work);
	pthread_mutex_unlock(&s->lock);
}

void engines_leave(struct exchange *x)
{
	struct server *s = x->server;

	engines_release(x);
	pthread_mutex_lock(&s->lock);
	if (x->waiting) {
		struct exchange **at = &x->entry->waiting;

		while (*at != x)
			at = &(*at)->queue_next;
		*at = x->queue_next;
		pthread_cond_signal(&s->engines.work);
	}
	drop_entry(x);
	pthread_mutex_unlock(&s->lock);
}

/* ---- state of the engines ------------------------------------------------ */

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
			"D-Bus requests can use only the model '%s', not "
			"'%.100s'",
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

	fault_set(&f, 400, "canceled", NULL, "the client has disconnected");
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

int engines_open(
	struct server *s, struct tandem *first, uint64_t need, struct err *e)
{
	const struct server_options *o = &s->options;
	struct engines *g = &s->engines;
	struct engine_entry *entry = NULL;
	struct tandem_report r;
	struct fault f = { 0 };
	pthread_condattr_t clock;
	int ret = 0;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&g->work, &clock);
	pthread_condattr_destroy(&clock);
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
	if (!ret && first) {
		entry = add(g, 0, NULL, &o->offer);
		ret = entry ? entry_take_handle(s, entry, first, need, e)
			    : err_set(e, ENOMEM, "no memory for the server");
	}
	if (ret) {
		g->has_first = false;
		if (first)
			engines_close_handle(g, first);
		return ret;
	}
	if (entry)
		entry->pinned = o->bus != SERVER_BUS_NONE;
	ret = pthread_create(&g->keeper, NULL, engines_keep, s);
	if (ret)
		return err_sys(e, ret,
			"cannot start the thread that loads models; check the "
			"free memory and ulimit -u");
	g->keeps = true;
	return 0;
}

void engines_stop(struct server *s)
{
	struct engines *g = &s->engines;

	pthread_mutex_lock(&s->lock);
	g->closing = true;
	if (g->loading)
		tandem_cancel(g->loading);
	pthread_cond_signal(&g->work);
	pthread_mutex_unlock(&s->lock);
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
			engines_close_handle(g, t);
		entry_free(x);
	}
	ret = g->ret;
	if (g->why)
		*e = *g->why;
	else if (ret)
		err_set(e, -ret, "closing a model failed");
	free(g->why);
	free(g->facts);
	engine_choice_free(g->own);
	if (g->own_models)
		model_list_release(&g->models);
	pthread_cond_destroy(&g->work);
	return ret;
}
