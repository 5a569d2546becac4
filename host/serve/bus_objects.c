/* The D-Bus objects of the server: replies to method calls, and signals. */
#include "host/serve/bus_impl.h"

#include "base/checked.h"
#include "base/version.h"
#include "host/serve/bus_xml.h"

#include <inttypes.h>
#include <string.h>

#define MANAGER "org.freedesktop.DBus.ObjectManager"

/* ---- properties ---------------------------------------------------------- */

/* A D-Bus object: its path, its interface and its properties. */
struct object {
	const char *path, *face;
	struct bus_value value[BUS_PROPERTIES]; /* ends with a NULL name */
};

static struct object engine_object(const struct bus *b)
{
	return (struct object){ BUS_ENGINE, BUS_ENGINE_FACE,
		{
			{ "State", 's', true, b->now.state, 0 },
			{ "Texts", 'u', true, NULL, b->now.texts },
			{ "Model", 's', false, b->offer->model, 0 },
			{ "Method", 's', false, b->offer->method, 0 },
			{ "Context", 't', false, NULL, b->context },
			{ "Findings", 'f', false, NULL, 0 },
			{ "Version", 's', false, TANDEM_VERSION, 0 },
		} };
}

static struct object text_object(const struct bus_text *t)
{
	return (struct object){ t->path, BUS_TEXT_FACE,
		{
			{ "State", 's', true, t->state, 0 },
			{ "Stop", 's', true, t->stop, 0 },
			{ "Error", 's', true, t->error, 0 },
			{ "Tokens", 't', false, NULL, t->tokens },
			{ "PromptTokens", 't', false, NULL, t->prompt_tokens },
			{ "Seed", 't', false, NULL, t->seed },
		} };
}

/* ---- writing messages ---------------------------------------------------- */

/*
 * The functions put_* append a value to a message and return false if there is
 * no memory; the caller then drops the message. Before the message is dropped,
 * all open containers must be abandoned, the innermost first; otherwise libdbus
 * leaks their memory. So each call of dbus_message_iter_open_container, even a
 * failed one, is followed by a call of shut_in.
 */

/* Close the container `in`, a part of `out`, if `whole` is set (the contents
 * are complete); otherwise abandon the container. Returns whether the container
 * was closed. */
static bool shut_in(DBusMessageIter *out, DBusMessageIter *in, bool whole)
{
	if (whole)
		return dbus_message_iter_close_container(out, in);
	dbus_message_iter_abandon_container_if_open(out, in);
	return false;
}

static bool put_text(DBusMessageIter *out, const char *text)
{
	text = text ? text : "";
	return dbus_message_iter_append_basic(out, DBUS_TYPE_STRING, &text);
}

static bool put_findings(DBusMessageIter *out, const struct bus *b)
{
	DBusMessageIter list, in;
	bool ok = dbus_message_iter_open_container(
		out, DBUS_TYPE_ARRAY, "(ssss)", &list);

	for (size_t i = 0; ok && i < b->n_findings; i++) {
		const struct server_finding *f = &b->findings[i];

		ok = dbus_message_iter_open_container(
			     &list, DBUS_TYPE_STRUCT, NULL, &in) &&
			put_text(&in, f->name) && put_text(&in, f->state) &&
			put_text(&in, f->found) && put_text(&in, f->means);
		ok = shut_in(&list, &in, ok);
	}
	return shut_in(out, &list, ok);
}

static bool put_value(
	DBusMessageIter *out, const struct bus *b, const struct bus_value *v)
{
	const char type[] = { v->type, '\0' };
	dbus_uint64_t u64 = v->number;
	dbus_uint32_t u32 = (dbus_uint32_t)v->number;
	DBusMessageIter in;
	bool ok = dbus_message_iter_open_container(
		out, DBUS_TYPE_VARIANT, v->type == 'f' ? "a(ssss)" : type, &in);

	if (v->type == 'f')
		ok = ok && put_findings(&in, b);
	else if (v->type == 's')
		ok = ok && put_text(&in, v->text);
	else
		ok = ok &&
			dbus_message_iter_append_basic(&in, v->type,
				v->type == 't' ? (void *)&u64 : &u32);
	return shut_in(out, &in, ok);
}

/* Append a dictionary (type a{sv}) of all properties or, if `changing` is set,
 * only of the properties whose changes are reported by signals. */
static bool put_values(DBusMessageIter *out, const struct bus *b,
	const struct object *o, bool changing)
{
	DBusMessageIter list, in;
	bool ok = dbus_message_iter_open_container(
		out, DBUS_TYPE_ARRAY, "{sv}", &list);

	for (size_t i = 0; ok && o->value[i].name; i++) {
		const struct bus_value *v = &o->value[i];

		if (changing && !v->changes)
			continue;
		ok = dbus_message_iter_open_container(
			     &list, DBUS_TYPE_DICT_ENTRY, NULL, &in) &&
			put_text(&in, v->name) && put_value(&in, b, v);
		ok = shut_in(&list, &in, ok);
	}
	return shut_in(out, &list, ok);
}

/* Append a dictionary (type a{sa{sv}}) with one entry: the object's interface
 * and its properties. */
static bool put_faces(
	DBusMessageIter *out, const struct bus *b, const struct object *o)
{
	DBusMessageIter list, in;
	bool ok = dbus_message_iter_open_container(
		out, DBUS_TYPE_ARRAY, "{sa{sv}}", &list);

	if (ok) {
		ok = dbus_message_iter_open_container(
			     &list, DBUS_TYPE_DICT_ENTRY, NULL, &in) &&
			put_text(&in, o->face) && put_values(&in, b, o, false);
		ok = shut_in(&list, &in, ok);
	}
	return shut_in(out, &list, ok);
}

static bool put_object(
	DBusMessageIter *out, const struct bus *b, const struct object *o)
{
	DBusMessageIter entry;
	bool ok = dbus_message_iter_open_container(
			  out, DBUS_TYPE_DICT_ENTRY, NULL, &entry) &&
		dbus_message_iter_append_basic(
			&entry, DBUS_TYPE_OBJECT_PATH, &o->path) &&
		put_faces(&entry, b, o);

	return shut_in(out, &entry, ok);
}

/* Append an array of strings: one element, the name, or no element if the name
 * is NULL. */
static bool put_names(DBusMessageIter *out, const char *name)
{
	DBusMessageIter list;
	bool ok = dbus_message_iter_open_container(
			  out, DBUS_TYPE_ARRAY, "s", &list) &&
		(!name || put_text(&list, name));

	return shut_in(out, &list, ok);
}

/* Returns the message if `whole` is set (the message is complete); otherwise
 * releases the message and returns NULL. */
static DBusMessage *if_whole(DBusMessage *m, bool whole)
{
	if (whole || !m)
		return m;
	dbus_message_unref(m);
	return NULL;
}

/* ---- signals ------------------------------------------------------------- */

/* Emit the signal if `whole` is set (the signal is complete), and release the
 * signal. */
static void emit(struct bus *b, DBusMessage *signal, bool whole)
{
	if (whole && b->connection)
		dbus_connection_send(b->connection, signal, NULL);
	dbus_message_unref(signal);
}

static void emit_changed(struct bus *b, const struct object *o)
{
	DBusMessage *m = dbus_message_new_signal(
		o->path, DBUS_INTERFACE_PROPERTIES, "PropertiesChanged");
	DBusMessageIter out;

	if (!m)
		return;
	dbus_message_iter_init_append(m, &out);
	emit(b, m,
		put_text(&out, o->face) && put_values(&out, b, o, true) &&
			put_names(&out, NULL));
}

void bus_report_engine(struct bus *b)
{
	const struct object o = engine_object(b);

	emit_changed(b, &o);
}

void bus_report_text(struct bus_text *t)
{
	const struct object o = text_object(t);

	emit_changed(t->bus, &o);
}

void bus_report_added(struct bus_text *t)
{
	const struct object o = text_object(t);
	DBusMessage *m =
		dbus_message_new_signal(BUS_ROOT, MANAGER, "InterfacesAdded");
	DBusMessageIter out;

	if (!m)
		return;
	dbus_message_iter_init_append(m, &out);
	emit(t->bus, m,
		dbus_message_iter_append_basic(
			&out, DBUS_TYPE_OBJECT_PATH, &o.path) &&
			put_faces(&out, t->bus, &o));
}

void bus_report_removed(struct bus_text *t)
{
	const char *path = t->path;
	DBusMessage *m =
		dbus_message_new_signal(BUS_ROOT, MANAGER, "InterfacesRemoved");
	DBusMessageIter out;

	if (!m)
		return;
	dbus_message_iter_init_append(m, &out);
	emit(t->bus, m,
		dbus_message_iter_append_basic(
			&out, DBUS_TYPE_OBJECT_PATH, &path) &&
			put_names(&out, BUS_TEXT_FACE));
}

/* ---- introspection ------------------------------------------------------- */

static const char standard
	[] = "  <interface name=\"org.freedesktop.DBus.Introspectable\">\n"
	     "    <method name=\"Introspect\">\n"
	     "      <arg name=\"xml_data\" type=\"s\" direction=\"out\"/>\n"
	     "    </method>\n"
	     "  </interface>\n"
	     "  <interface name=\"org.freedesktop.DBus.Peer\">\n"
	     "    <method name=\"Ping\"/>\n"
	     "    <method name=\"GetMachineId\">\n"
	     "      <arg name=\"machine_uuid\" type=\"s\" direction=\"out\"/>\n"
	     "    </method>\n"
	     "  </interface>\n",
	properties[] =
		"  <interface name=\"org.freedesktop.DBus.Properties\">\n"
		"    <method name=\"Get\">\n"
		"      <arg name=\"interface_name\" type=\"s\" direction=\"in\"/>\n"
		"      <arg name=\"property_name\" type=\"s\" direction=\"in\"/>\n"
		"      <arg name=\"value\" type=\"v\" direction=\"out\"/>\n"
		"    </method>\n"
		"    <method name=\"GetAll\">\n"
		"      <arg name=\"interface_name\" type=\"s\" direction=\"in\"/>\n"
		"      <arg name=\"properties\" type=\"a{sv}\" direction=\"out\"/>\n"
		"    </method>\n"
		"    <method name=\"Set\">\n"
		"      <arg name=\"interface_name\" type=\"s\" direction=\"in\"/>\n"
		"      <arg name=\"property_name\" type=\"s\" direction=\"in\"/>\n"
		"      <arg name=\"value\" type=\"v\" direction=\"in\"/>\n"
		"    </method>\n"
		"    <signal name=\"PropertiesChanged\">\n"
		"      <arg name=\"interface_name\" type=\"s\"/>\n"
		"      <arg name=\"changed_properties\" type=\"a{sv}\"/>\n"
		"      <arg name=\"invalidated_properties\" type=\"as\"/>\n"
		"    </signal>\n"
		"  </interface>\n",
	manager[] =
		"  <interface name=\"org.freedesktop.DBus.ObjectManager\">\n"
		"    <method name=\"GetManagedObjects\">\n"
		"      <arg name=\"objects\" type=\"a{oa{sa{sv}}}\" "
		"direction=\"out\"/>\n"
		"    </method>\n"
		"    <signal name=\"InterfacesAdded\">\n"
		"      <arg name=\"object\" type=\"o\"/>\n"
		"      <arg name=\"interfaces\" type=\"a{sa{sv}}\"/>\n"
		"    </signal>\n"
		"    <signal name=\"InterfacesRemoved\">\n"
		"      <arg name=\"object\" type=\"o\"/>\n"
		"      <arg name=\"interfaces\" type=\"as\"/>\n"
		"    </signal>\n"
		"  </interface>\n";

/* Add the interface that an introspection file describes, without the file's
 * <node> element, and the interface of properties. */
static void add_described(struct strbuf *s, const char *xml)
{
	const char *from = strstr(xml, "  <interface");

	strbuf_add(s, from, (size_t)(strstr(from, "</node>") - from));
	strbuf_addf(s, "%s", properties);
}

static DBusMessage *introspect(struct bus *b, DBusMessage *call)
{
	const char *path = dbus_message_get_path(call);
	DBusMessage *reply = dbus_message_new_method_return(call);
	struct strbuf s = STRBUF_INIT;
	bool ok;

	strbuf_addf(&s, DBUS_INTROSPECT_1_0_XML_DOCTYPE_DECL_NODE "<node>\n");
	if (!strcmp(path, BUS_ENGINE))
		add_described(&s, bus_engine_xml);
	else if (bus_text_find(b, path))
		add_described(&s, bus_text_xml);
	else if (!strcmp(path, BUS_ROOT))
		strbuf_addf(&s, "%s", manager);
	strbuf_addf(&s, "%s", standard);
	/* Add the child nodes of the path. */
	if (!strcmp(path, "/"))
		strbuf_addf(&s, "  <node name=\"dev\"/>\n");
	else if (!strcmp(path, "/dev"))
		strbuf_addf(&s, "  <node name=\"tandem\"/>\n");
	else if (!strcmp(path, BUS_ROOT))
		strbuf_addf(&s,
			"  <node name=\"engine\"/>\n  <node name=\"text\"/>\n");
	else if (!strcmp(path, BUS_TEXTS))
		for (const struct bus_text *t = b->texts; t; t = t->next)
			strbuf_addf(&s, "  <node name=\"%" PRIu64 "\"/>\n",
				t->number);
	strbuf_addf(&s, "</node>\n");
	ok = reply && !s.failed &&
		dbus_message_append_args(
			reply, DBUS_TYPE_STRING, &s.data, DBUS_TYPE_INVALID);
	strbuf_release(&s);
	return if_whole(reply, ok);
}

/* ---- method calls -------------------------------------------------------- */

/* Returns a reply whose only argument is the value `v` or, if `v` is NULL, all
 * properties of the object; NULL if there is no memory. */
static DBusMessage *reply_value(struct bus *b, DBusMessage *call,
	const struct object *o, const struct bus_value *v)
{
	DBusMessage *reply = dbus_message_new_method_return(call);
	DBusMessageIter out;

	if (!reply)
		return NULL;
	dbus_message_iter_init_append(reply, &out);
	return if_whole(reply,
		v ? put_value(&out, b, v) : put_values(&out, b, o, false));
}

static DBusMessage *unknown(
	DBusMessage *call, const char *error, const char *what)
{
	return dbus_message_new_error_printf(
		call, error, "there is no such %s at this path", what);
}

/* Whether the call names the interface `face` or, if the call names no
 * interface, a member of `face`. `members` lists the members of `face`, each
 * followed by a space. */
static bool is_for(DBusMessage *call, const char *face, const char *members)
{
	const char *wanted = dbus_message_get_interface(call);
	const char *at = strstr(members, dbus_message_get_member(call));

	return wanted ? !strcmp(wanted, face)
		      : at && at[strlen(dbus_message_get_member(call))] == ' ';
}

static DBusMessage *object_reply(struct bus *b, DBusMessage *call,
	const struct object *o, struct bus_text *t)
{
	const char *member = dbus_message_get_member(call);

	if (is_for(call, DBUS_INTERFACE_PROPERTIES, "Get GetAll Set ")) {
		const char *wanted, *face, *name = NULL;

		wanted = !strcmp(member, "Get")     ? "ss"
			: !strcmp(member, "Set")    ? "ssv"
			: !strcmp(member, "GetAll") ? "s"
						    : NULL;
		if (!wanted)
			return unknown(
				call, DBUS_ERROR_UNKNOWN_METHOD, "method");
		if (!dbus_message_has_signature(call, wanted))
			return dbus_message_new_error_printf(call,
				DBUS_ERROR_INVALID_ARGS,
				"%.64s takes arguments of types '%s', not "
				"'%.64s'",
				member, wanted,
				dbus_message_get_signature(call));
		dbus_message_get_args(call, NULL, DBUS_TYPE_STRING, &face,
			wanted[1] ? DBUS_TYPE_STRING : DBUS_TYPE_INVALID, &name,
			DBUS_TYPE_INVALID);
		/* An empty interface name stands for any interface. */
		if (*face && strcmp(face, o->face) != 0)
			return unknown(call, DBUS_ERROR_UNKNOWN_INTERFACE,
				"interface");
		if (!strcmp(member, "Set"))
			return dbus_message_new_error(call,
				DBUS_ERROR_PROPERTY_READ_ONLY,
				"the properties are read-only");
		if (!name)
			return reply_value(b, call, o, NULL);
		for (size_t i = 0; o->value[i].name; i++)
			if (!strcmp(o->value[i].name, name))
				return reply_value(b, call, o, &o->value[i]);
		return unknown(call, DBUS_ERROR_UNKNOWN_PROPERTY, "property");
	}
	if (!is_for(call, o->face, t ? "Wait Cancel " : "Generate "))
		return unknown(call, DBUS_ERROR_UNKNOWN_INTERFACE, "interface");
	if (!t && !strcmp(member, "Generate"))
		return bus_generate(b, call);
	if (t && !strcmp(member, "Wait"))
		return bus_text_wait(t, call);
	if (t && !strcmp(member, "Cancel")) {
		bus_text_cancel(t);
		return dbus_message_new_method_return(call);
	}
	return unknown(call, DBUS_ERROR_UNKNOWN_METHOD, "method");
}

static bool is_call_of(DBusMessage *call, const char *face, const char *member)
{
	const char *wanted = dbus_message_get_interface(call);

	return (!wanted || !strcmp(wanted, face)) &&
		!strcmp(dbus_message_get_member(call), member);
}

DBusMessage *bus_reply(struct bus *b, DBusMessage *call)
{
	static const char *const nodes[] = { "/", "/dev", BUS_ROOT, BUS_TEXTS,
		BUS_ENGINE };
	const char *path = dbus_message_get_path(call);
	struct bus_text *t = bus_text_find(b, path);
	bool engine = !strcmp(path, BUS_ENGINE), known = t != NULL;
	struct object o = t ? text_object(t) : engine_object(b);

	for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
		known |= !strcmp(nodes[i], path);
	if (known &&
		is_call_of(call, DBUS_INTERFACE_INTROSPECTABLE, "Introspect"))
		return introspect(b, call);
	if (engine || t)
		return object_reply(b, call, &o, t);
	if (!strcmp(path, BUS_ROOT) &&
		is_call_of(call, MANAGER, "GetManagedObjects")) {
		DBusMessage *reply = dbus_message_new_method_return(call);
		DBusMessageIter out, list;
		bool ok;

		if (!reply)
			return NULL;
		dbus_message_iter_init_append(reply, &out);
		ok = dbus_message_iter_open_container(
			     &out, DBUS_TYPE_ARRAY, "{oa{sa{sv}}}", &list) &&
			put_object(&list, b, &o);
		for (struct bus_text *j = b->texts; ok && j; j = j->next) {
			o = text_object(j);
			ok = put_object(&list, b, &o);
		}
		return if_whole(reply, shut_in(&out, &list, ok));
	}
	return unknown(call, DBUS_ERROR_UNKNOWN_OBJECT, "object");
}
