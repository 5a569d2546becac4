#include "base/fault_plan.h"

#include "base/err.h"
#include "base/fd.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES 65536
/* size of a buffer for the text of one event, in bytes with its NUL */
#define EVENT_MAX 128

enum place { AT_START_OR_REQUEST, AT_REQUEST, AT_MAP, AT_MAINTENANCE, AT_READ };

static const struct {
	const char *name;
	enum place place;
	bool ms;
} verbs[FAULT_VERBS] = {
	[FAULT_DIE] = { "die", AT_START_OR_REQUEST, false },
	[FAULT_HANG] = { "hang", AT_START_OR_REQUEST, false },
	[FAULT_LATE] = { "late", AT_START_OR_REQUEST, true },
	[FAULT_DIE_INSIDE] = { "die-inside", AT_REQUEST, false },
	[FAULT_DIE_ANSWERED] = { "die-answered", AT_REQUEST, false },
	[FAULT_HANG_INSIDE] = { "hang-inside", AT_REQUEST, false },
	[FAULT_HANG_ANSWERED] = { "hang-answered", AT_REQUEST, false },
	[FAULT_ENOMEM] = { "enomem", AT_MAP, false },
	[FAULT_BELL_DROP] = { "bell-drop", AT_REQUEST, false },
	[FAULT_BELL_REPEAT] = { "bell-repeat", AT_REQUEST, false },
	[FAULT_BELL_MERGE] = { "bell-merge", AT_REQUEST, false },
	[FAULT_TEAR] = { "tear", AT_REQUEST, false },
	[FAULT_SEQ] = { "seq", AT_REQUEST, false },
	[FAULT_FULL] = { "full", AT_REQUEST, true },
	[FAULT_DROP_INVALIDATE] = { "drop-invalidate", AT_MAINTENANCE, false },
	[FAULT_DROP_CLEAN] = { "drop-clean", AT_MAINTENANCE, false },
	[FAULT_DROP_WORD] = { "drop-word", AT_MAINTENANCE, false },
	[FAULT_DROP_CLEAN_ALL] = { "drop-clean-all", AT_MAINTENANCE, false },
	[FAULT_DROP_FLUSH_ALL] = { "drop-flush-all", AT_MAINTENANCE, false },
	[FAULT_DROP_WAIT] = { "drop-wait", AT_MAINTENANCE, false },
	[FAULT_EIO] = { "eio", AT_READ, false },
	[FAULT_SHORT] = { "short", AT_READ, false },
	[FAULT_FLIP] = { "flip", AT_READ, false },
	[FAULT_STALL] = { "stall", AT_READ, false },
	[FAULT_SHRINK] = { "shrink", AT_READ, false },
	[FAULT_SLOW] = { "slow", AT_READ, true },
};

static const char *const kinds[FAULT_KINDS] = { "", "nop", "map", "unmap",
	"load", "drop", "run", "soc", "start" };

#define MAP 2u

const char fault_plan_help[] =
	"A fault plan (--fault PLAN) is a comma-separated list of faults, or "
	"@FILE,\n"
	"a file with one fault a line.\n\n"
	"Faults at a request to the device:\n"
	"  die@WHERE            the device dies when it receives the request\n"
	"  die-inside@WHERE     the device dies while it runs the request\n"
	"  die-answered@WHERE   the device dies after it answered the request\n"
	"  hang@WHERE, hang-inside@WHERE, hang-answered@WHERE\n"
	"                       the device hangs, at the same moments\n"
	"  late=MS@WHERE        the answer is delayed by MS milliseconds\n"
	"  bell-drop@WHERE      the doorbell of the answer is not rung\n"
	"  bell-repeat@WHERE    the doorbell of the answer is rung twice\n"
	"  bell-merge@WHERE     the doorbell is rung once for two answers\n"
	"  tear@WHERE           the answer's header is written without its length\n"
	"  seq@WHERE            the answer has the previous request's number\n"
	"  full=MS@WHERE        the ring of answers is full for MS "
	"milliseconds\n"
	"  enomem@map#N         the N-th mapping fails for lack of memory\n\n"
	"WHERE is N, the N-th request, or KIND#N, the N-th request of a kind: "
	"map,\n"
	"unmap (buffers), load, drop, run (graphs), soc (the phone's costs) or "
	"nop. A +\n"
	"after N adds all later requests.\n"
	"These faults apply to the first device only. Faults at a start of a "
	"device:\n"
	"  die@start#2          the second device (the first replacement) "
	"dies\n"
	"  hang@start#2         the second device does not answer\n"
	"  late=MS@start#2      the second device answers MS milliseconds "
	"late\n\n"
	"Faults at a cache-maintenance call for BUFFER, such as the "
	"invalidates of\n"
	"tandem:io and the cleans of tandem:kv and tandem:io (the summary of\n"
	"--coherence-report counts them). Without #N, every call is affected. "
	"With\n"
	"--coherence off these faults have no effect:\n"
	"  drop-invalidate[:BUFFER[#N]]   omit the invalidate\n"
	"  drop-clean[:BUFFER[#N]]        omit the clean\n"
	"  drop-word[:BUFFER[#N]]         omit the invalidate, and hide the "
	"CPU's\n"
	"                                 write from the checker\n"
	"  drop-wait[:BUFFER[#N]]         do not wait for DMA from the buffer\n"
	"  drop-clean-all[#N], drop-flush-all[#N]\n"
	"                                 omit a clean or flush of the whole\n"
	"                                 cache (--contract 2)\n\n"
	"Faults at the N-th read from a streamed flash image:\n"
	"  eio@N, short@N       the read fails, or returns half of its bytes\n"
	"  flip@N               one bit of the result is wrong\n"
	"  stall@N, slow=MS@N   the read never completes, or completes MS\n"
	"                       milliseconds late\n"
	"  shrink@N             the file ends at this read from then on\n"
	"A + after N adds all later reads.\n\n"
	"Older forms: die-after:N is die@N, hang-after:N is hang@N.\n\n"
	"If a planned fault is never triggered, because there was no such "
	"buffer or\n"
	"request, a message names the fault and the exit status is 4. With "
	"--coherence\n"
	"off, an omitted call counts as triggered, with a warning.\n";

/* ---- one event ------------------------------------------------------- */

/* Parse a number, at least 1, at *text and advance *text past it. */
static bool take_number(const char **text, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	*out = strtoull(*text, &end, 10);
	*text = end;
	return !errno && *out > 0;
}

static bool take_word(const char **text, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*text, word, n))
		return false;
	*text += n;
	return true;
}

/* Parse the text after a verb such as drop-clean: "", ":BUFFER" or ":BUFFER#N",
 * or, if the verb concerns the whole cache, "" or "#N". */
static bool parse_maintenance(const char *text, struct fault_event *ev)
{
	bool whole = ev->verb == FAULT_DROP_CLEAN_ALL ||
		ev->verb == FAULT_DROP_FLUSH_ALL;
	size_t n;

	if (*text == ':') {
		n = strcspn(++text, "#");
		if (whole || !n || n >= sizeof(ev->buffer))
			return false;
		memcpy(ev->buffer, text, n);
		text += n;
	} else if (*text == '#' && !whole) {
		return false;
	}
	if (!*text)
		return true;
	return *text++ == '#' && take_number(&text, &ev->at) && !*text;
}

static bool parse_where(const char *text, struct fault_event *ev)
{
	const char *at;
	uint64_t ms;

	if (verbs[ev->verb].ms) {
		if (*text++ != '=' || !take_number(&text, &ms) ||
			ms > FAULT_MS_MAX)
			return false;
		ev->ms = (uint32_t)ms;
	}
	if (*text++ != '@')
		return false;
	for (unsigned k = 1; k < FAULT_KINDS && !ev->kind; k++) {
		at = text;
		if (take_word(&at, kinds[k]) && *at == '#') {
			ev->kind = k;
			text = at + 1;
		}
	}
	if (!take_number(&text, &ev->at))
		return false;
	ev->later = *text == '+';
	if (text[ev->later])
		return false;
	switch (verbs[ev->verb].place) {
	case AT_START_OR_REQUEST:
		return true;
	case AT_REQUEST:
		return ev->kind != FAULT_START;
	case AT_MAP:
		return ev->kind == MAP;
	default:
		return ev->kind == FAULT_ANY;
	}
}

static bool parse_event(const char *text, struct fault_event *ev)
{
	unsigned v = 0;
	size_t n;

	*ev = (struct fault_event){ 0 };
	ev->verb = FAULT_HANG;
	if (take_word(&text, "hang-after:"))
		return take_number(&text, &ev->at) && !*text;
	ev->verb = FAULT_DIE;
	if (take_word(&text, "die-after:"))
		return take_number(&text, &ev->at) && !*text;
	n = strcspn(text, "=@:#");
	while (v < FAULT_VERBS &&
		(strlen(verbs[v].name) != n || strncmp(text, verbs[v].name, n)))
		v++;
	if (v == FAULT_VERBS)
		return false;
	ev->verb = (enum fault_verb)v;
	return verbs[v].place == AT_MAINTENANCE
		? parse_maintenance(text + n, ev)
		: parse_where(text + n, ev);
}

/* ---- plans ----------------------------------------------------------- */

static int parse_text(
	struct fault_plan *p, const char *text, bool file, struct err *e)
{
	char one[EVENT_MAX];
	size_t len, event;

	for (;;) {
		while (file && isspace((unsigned char)*text))
			text++;
		if (file && *text == '#') {
			text += strcspn(text, "\n");
			continue;
		}
		if (file && !*text)
			return 0;
		if (p->n == FAULT_PLAN_MAX)
			return err_set(e, EINVAL,
				"a fault plan has at most %d events",
				FAULT_PLAN_MAX);
		len = event = strcspn(text, file ? ",\n" : ",");
		while (file && event && isspace((unsigned char)text[event - 1]))
			event--;
		if (event >= sizeof(one))
			/* Too long for a valid event (except one whose numbers
			 * have many leading zeros): cut the text, which
			 * parse_event then refuses. */
			event = sizeof(one) - 1;
		memcpy(one, text, event);
		one[event] = '\0';
		if (!parse_event(one, &p->event[p->n]))
			return err_set(e, EINVAL,
				"'%s' is not a fault; 'tandem help faults' "
				"lists them",
				one);
		p->n++;
		if (!text[len] && !file)
			return 0;
		text += len + (text[len] != '\0');
	}
}

int fault_plan_parse(struct fault_plan *p, const char *text, struct err *e)
{
	char *file;
	size_t len;
	int ret;

	*p = (struct fault_plan){ 0 };
	if (!text || !*text)
		return 0;
	if (*text != '@')
		return parse_text(p, text, false, e);
	ret = fd_read_file(text + 1, FILE_MAX_BYTES, &file, &len, e);
	if (ret)
		return ret;
	ret = parse_text(p, file, true, e);
	if (ret)
		err_in(e, "%s", text + 1);
	free(file);
	return ret;
}

void fault_event_print(const struct fault_event *ev, char *buf, size_t size)
{
	char ms[16] = "";

	if (verbs[ev->verb].place == AT_MAINTENANCE) {
		int n = snprintf(buf, size, "%s%s%s", verbs[ev->verb].name,
			*ev->buffer ? ":" : "", ev->buffer);

		if (ev->at && n > 0 && (size_t)n < size)
			snprintf(
				buf + n, size - (size_t)n, "#%" PRIu64, ev->at);
		return;
	}
	if (verbs[ev->verb].ms)
		snprintf(ms, sizeof(ms), "=%" PRIu32, ev->ms);
	snprintf(buf, size, "%s%s@%s%s%" PRIu64 "%s", verbs[ev->verb].name, ms,
		kinds[ev->kind], ev->kind ? "#" : "", ev->at,
		ev->later ? "+" : "");
}

void fault_plan_print(const struct fault_plan *p, char buf[FAULT_TEXT_MAX])
{
	size_t at = 0;

	buf[0] = '\0';
	for (unsigned i = 0; i < p->n; i++) {
		char one[96];
		int n;

		fault_event_print(&p->event[i], one, sizeof(one));
		n = snprintf(buf + at, FAULT_TEXT_MAX - at, "%s%s",
			i ? "," : "", one);
		at += (size_t)n;
		assert(at < FAULT_TEXT_MAX);
	}
}

void fault_plan_share(
	const struct fault_plan *p, bool flash, struct fault_plan *out)
{
	*out = (struct fault_plan){ 0 };
	for (unsigned i = 0; i < p->n; i++)
		if ((verbs[p->event[i].verb].place == AT_READ) == flash)
			out->event[out->n++] = p->event[i];
}

bool fault_event_hits(const struct fault_event *ev, uint64_t nth)
{
	return !ev->at || nth == ev->at || (ev->later && nth > ev->at);
}

int fault_plan_parse_device(
	struct fault_plan *p, const char *text, struct err *e)
{
	struct fault_plan flash;
	char one[96];
	int ret = fault_plan_parse(p, text, e);

	if (ret)
		return ret;
	fault_plan_share(p, true, &flash);
	if (!flash.n)
		return 0;
	fault_event_print(&flash.event[0], one, sizeof(one));
	return err_set(e, EINVAL,
		"'%s' is a fault of flash, which only the host reads: pass "
		"it to --fault of tandem, not of tandem-npu",
		one);
}

atomic_uint fault_plan_unfired;
