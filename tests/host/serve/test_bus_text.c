/* Texts that are sent over D-Bus to a client that does not read them. */
#include "host/serve/bus_impl.h"

#include "tests/harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NEVER (3600 * 1000000000ull)

/* A running text that has more output than a pipe takes. */
struct fixture {
	pthread_mutex_t lock;
	struct choice choice;
	struct answer answer;
	struct bus bus;
	struct bus_text text;
	int end; /* the pipe's reading end */
};

static void begin(struct fixture *x)
{
	static const char part[4096];
	int ends[2];

	*x = (struct fixture){ .lock = PTHREAD_MUTEX_INITIALIZER };
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	x->end = ends[0];
	x->answer.lock = &x->lock;
	x->answer.choice = &x->choice;
	x->answer.n_choices = 1;
	x->answer.state = ANSWER_RUNNING;
	x->bus.idle_ns = NEVER;
	x->bus.busy = 1;
	x->text.bus = &x->bus;
	x->text.answer = &x->answer;
	x->text.pipe = ends[1];
	snprintf(x->text.path, sizeof(x->text.path), BUS_TEXTS "/1");
	for (int i = 0; i < 1024; i++)
		strbuf_add(&x->choice.text, part, sizeof(part));
	bus_text_advance(&x->text);
	assert_true(x->text.unsent.len > 0);
}

static void end(struct fixture *x)
{
	close(x->end);
	if (x->text.pipe >= 0)
		close(x->text.pipe);
	strbuf_release(&x->text.unsent);
	strbuf_release(&x->choice.text);
}

static void a_client_that_reads_nothing_is_dropped(void **state)
{
	struct fixture x;

	begin(&x);
	bus_text_advance(&x.text);
	assert_false(x.text.gone);
	x.bus.idle_ns = 0;
	bus_text_advance(&x.text);
	assert_true(x.text.gone);
	assert_int_equal(x.text.pipe, -1);
	assert_string_equal(x.text.error, "dev.tandem.Error.Unread");
	assert_int_equal(x.text.unsent.len, 0);
	assert_false(x.text.ended);
	/* The engine then ends the text. */
	x.answer.state = ANSWER_ENDED;
	x.choice.ended = true;
	x.choice.status = TANDEM_CANCELED;
	bus_text_advance(&x.text);
	assert_true(x.text.ended);
	assert_string_equal(x.text.error, "dev.tandem.Error.Unread");
	assert_string_equal(x.text.stop, "");
	end(&x);
}

static void a_slow_client_stays(void **state)
{
	struct fixture x;
	char part[65536];

	begin(&x);
	assert_int_equal(read(x.end, part, sizeof(part)), sizeof(part));
	bus_text_advance(&x.text);
	assert_true(x.text.full_ns > 0);
	x.text.full_ns -= NEVER / 2;
	assert_int_equal(read(x.end, part, sizeof(part)), sizeof(part));
	x.bus.idle_ns = NEVER / 4;
	bus_text_advance(&x.text);
	bus_text_advance(&x.text);
	assert_false(x.text.gone);
	end(&x);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_client_that_reads_nothing_is_dropped),
	cmocka_unit_test(a_slow_client_stays),
};

TEST_FILE(tests)
