/* The JSON and the events that clients receive. */
#include "host/serve/reply.h"

#include "base/strbuf.h"
#include "host/serve/engine.h"
#include "tests/harness.h"

#include <stdlib.h>
#include <string.h>

static const struct engine_offer offer = {
	.model = "m", .method = "chain", .clock = "wall", .precision = "int8"
};

struct fixture {
	struct choice choice[3];
	struct answer answer;
	struct reply reply;
	struct strbuf out;
};

/* Set up an answer to a request with this body. The answer has best_of texts,
 * which have not begun. */
static void begin(struct fixture *x, enum api_kind kind, const char *body)
{
	struct fault f;

	*x = (struct fixture){ .answer.choice = x->choice };
	if (api_request_read(&x->answer.request, kind, body, strlen(body), &f))
		fail_msg("%s", f.text);
	x->answer.n_choices = (size_t)x->answer.request.best_of;
	assert_int_equal(reply_init(&x->reply, &offer, &x->answer, 1), 0);
}

static void end(struct fixture *x)
{
	for (size_t i = 0; i < x->answer.n_choices; i++)
		strbuf_release(&x->choice[i].text);
	reply_release(&x->reply);
	strbuf_release(&x->out);
	api_request_release(&x->answer.request);
}

static void write_text(struct choice *c, const char *text)
{
	strbuf_add(&c->text, text, strlen(text));
	c->tokens++;
	c->result.tokens++;
}

static void finish(struct fixture *x, size_t i, enum tandem_stop stop)
{
	x->choice[i].ended = true;
	x->choice[i].result.stop = stop;
	x->choice[i].result.prompt_tokens = 3;
	x->answer.state =
		i + 1 == x->answer.n_choices ? ANSWER_ENDED : ANSWER_RUNNING;
}

static const char *text_at(const json_t *whole, size_t i)
{
	return json_string_value(json_object_get(
		json_array_get(json_object_get(whole, "choices"), i), "text"));
}

static void a_whole_answer_is_one_object(void **state)
{
	struct fixture x;
	json_t *whole;

	begin(&x, API_COMPLETION, "{\"prompt\":\"p\",\"n\":2}");
	write_text(&x.choice[0], "one \"quoted\"");
	write_text(&x.choice[1], "two");
	finish(&x, 0, TANDEM_STOP_EOS);
	finish(&x, 1, TANDEM_STOP_LENGTH);
	reply_whole(&x.reply, &x.out);
	assert_false(x.out.failed);
	whole = json_loadb(x.out.data, x.out.len, 0, NULL);
	assert_non_null(whole);
	assert_string_equal(text_at(whole, 0), "one \"quoted\"");
	assert_string_equal(text_at(whole, 1), "two");
	assert_non_null(strstr(x.out.data, "\"finish_reason\":\"length\""));
	/* The tokens of the prompt are counted once, not for each text. */
	assert_non_null(strstr(x.out.data, "\"prompt_tokens\":3"));
	assert_non_null(strstr(x.out.data, "\"completion_tokens\":2"));
	assert_non_null(strstr(x.out.data, "\"method\":\"chain\""));
	json_decref(whole);
	end(&x);
}

static void the_best_texts_are_chosen_by_their_mean(void **state)
{
	static const double mean[] = { -2, -0.5, -1 };
	struct fixture x;
	json_t *whole;

	begin(&x, API_COMPLETION, "{\"prompt\":\"p\",\"n\":2,\"best_of\":3}");
	for (size_t i = 0; i < 3; i++) {
		/* The text with the best mean has five tokens and the others
		 * one, so its sum of log-probabilities is not the best. */
		for (size_t k = 0; k < (i == 1 ? 5 : 1); k++) {
			write_text(&x.choice[i], i == 1 ? "b" : i ? "c" : "a");
			x.choice[i].logprob += mean[i];
		}
		finish(&x, i, TANDEM_STOP_LENGTH);
	}
	reply_whole(&x.reply, &x.out);
	whole = json_loadb(x.out.data, x.out.len, 0, NULL);
	assert_non_null(whole);
	assert_int_equal(json_array_size(json_object_get(whole, "choices")), 2);
	assert_string_equal(text_at(whole, 0), "bbbbb");
	assert_string_equal(text_at(whole, 1), "c");
	/* all texts count, also the one that is not returned */
	assert_non_null(strstr(x.out.data, "\"completion_tokens\":7"));
	assert_non_null(strstr(x.out.data, "\"prompt_tokens\":3"));
	json_decref(whole);
	end(&x);
}

static void events_bring_each_piece_once(void **state)
{
	struct fixture x;

	begin(&x, API_CHAT,
		"{\"messages\":[{\"role\":\"user\",\"content\":\"p\"}],"
		"\"stream\":true}");
	assert_false(reply_events(&x.reply, &x.out));
	assert_int_equal(x.out.len, 0);
	write_text(&x.choice[0], "a");
	write_text(&x.choice[0], "b");
	assert_false(reply_events(&x.reply, &x.out));
	assert_memory_equal(x.out.data, "data: {", 7);
	assert_non_null(strstr(x.out.data,
		"\"delta\":{\"role\":\"assistant\",\"content\":\"ab\"}"));
	strbuf_reset(&x.out);
	assert_false(reply_events(&x.reply, &x.out));
	assert_int_equal(x.out.len, 0);
	write_text(&x.choice[0], "c");
	finish(&x, 0, TANDEM_STOP_EOS);
	assert_true(reply_events(&x.reply, &x.out));
	assert_non_null(strstr(x.out.data, "\"delta\":{\"content\":\"c\"}"));
	assert_non_null(strstr(x.out.data, "\"finish_reason\":\"stop\""));
	assert_non_null(strstr(x.out.data, "\"timings\":"));
	assert_string_equal(
		x.out.data + x.out.len - 16, "\n\ndata: [DONE]\n\n");
	end(&x);
}

static void usage_is_a_chunk_of_its_own(void **state)
{
	struct fixture x;

	begin(&x, API_COMPLETION,
		"{\"prompt\":\"p\",\"stream\":true,\"stream_options\":"
		"{\"include_usage\":true}}");
	write_text(&x.choice[0], "a");
	finish(&x, 0, TANDEM_STOP_EOS);
	assert_true(reply_events(&x.reply, &x.out));
	assert_non_null(strstr(x.out.data, "\"usage\":null"));
	assert_non_null(strstr(
		x.out.data, "\"choices\":[],\"usage\":{\"prompt_tokens\":3"));
	end(&x);
}

static void chunks_have_drafts_and_timings_on_request(void **state)
{
	struct fixture x;

	begin(&x, API_COMPLETION,
		"{\"prompt\":\"p\",\"stream\":true,\"timings_per_token\":true}");
	x.choice[0].drafts = json_pack("[{s:i}]", "pass", 1);
	x.choice[0].result.passes = 7;
	assert_false(reply_events(&x.reply, &x.out));
	assert_null(x.choice[0].drafts);
	assert_non_null(strstr(x.out.data, "\"drafts\":[{\"pass\":1}]"));
	assert_non_null(strstr(x.out.data, "\"timings\":{"));
	assert_non_null(strstr(x.out.data, "\"passes\":7"));
	strbuf_reset(&x.out);
	assert_false(reply_events(&x.reply, &x.out));
	assert_int_equal(x.out.len, 0);
	end(&x);
	begin(&x, API_COMPLETION, "{\"prompt\":\"p\",\"stream\":true}");
	write_text(&x.choice[0], "a");
	assert_false(reply_events(&x.reply, &x.out));
	assert_null(strstr(x.out.data, "timings"));
	end(&x);
}

static void a_fault_ends_a_stream(void **state)
{
	struct fixture x;

	begin(&x, API_COMPLETION, "{\"prompt\":\"p\",\"stream\":true}");
	write_text(&x.choice[0], "a");
	fault_set(&x.answer.fault, 500, "device_lost", NULL, "it is gone");
	x.answer.state = ANSWER_ENDED;
	assert_true(reply_events(&x.reply, &x.out));
	assert_string_equal(x.out.data,
		"data: {\"error\":{\"message\":\"it is gone\",\"type\":"
		"\"server_error\",\"param\":null,\"code\":\"device_lost\"}}"
		"\n\ndata: [DONE]\n\n");
	end(&x);
}

static void embeddings_are_numbers_or_base64(void **state)
{
	static const float values[2][3] = { { 1, -0.5f, 0.25f },
		{ 0.1f, 3e-8f, -2 } };
	static const char *const want[] = {
		"{\"object\":\"list\",\"data\":[{\"object\":\"embedding\","
		"\"index\":0,\"embedding\":[1.0,-0.5,0.25]},{\"object\":"
		"\"embedding\",\"index\":1,\"embedding\":[0.100000001,"
		"2.99999989e-8,-2.0]}],\"model\":\"m\",\"usage\":"
		"{\"prompt_tokens\":6,\"total_tokens\":6}}",
		"{\"object\":\"list\",\"data\":[{\"object\":\"embedding\","
		"\"index\":0,\"embedding\":\"AACAPwAAAL8AAIA+\"},{\"object\":"
		"\"embedding\",\"index\":1,\"embedding\":"
		"\"zczMPVnZADMAAADA\"}],\"model\":\"m\",\"usage\":"
		"{\"prompt_tokens\":6,\"total_tokens\":6}}",
	};

	for (int base64 = 0; base64 < 2; base64++) {
		struct fixture x;

		begin(&x, API_EMBEDDING,
			base64 ? "{\"input\":[\"a\",\"b\"],"
				 "\"encoding_format\":\"base64\"}"
			       : "{\"input\":[\"a\",\"b\"]}");
		x.answer.n_choices = 2;
		for (size_t i = 0; i < 2; i++) {
			strbuf_add(&x.choice[i].text, (const char *)values[i],
				sizeof(values[i]));
			finish(&x, i, TANDEM_STOP_LENGTH);
		}
		reply_whole(&x.reply, &x.out);
		strbuf_add(&x.out, "", 1);
		assert_string_equal(x.out.data, want[base64]);
		end(&x);
	}
}

/* The base64 text is padded if the number of bytes is no multiple of three. */
static void base64_is_padded(void **state)
{
	static const char *const text[] = { "f", "fo", "foo", "foob" };
	static const char *const want[] = { "\"Zg==\"", "\"Zm8=\"", "\"Zm9v\"",
		"\"Zm9vYg==\"" };

	for (size_t i = 0; i < 4; i++) {
		struct fixture x;

		begin(&x, API_EMBEDDING,
			"{\"input\":\"a\",\"encoding_format\":\"base64\"}");
		write_text(&x.choice[0], text[i]);
		finish(&x, 0, TANDEM_STOP_LENGTH);
		reply_whole(&x.reply, &x.out);
		strbuf_add(&x.out, "", 1);
		assert_non_null(strstr(x.out.data, want[i]));
		end(&x);
	}
}

static void what_is_no_utf8_is_replaced(void **state)
{
	json_t *t = reply_text("a\xff\xc3\xa9\xe2\x82", 6);

	assert_string_equal(json_string_value(t),
		"a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
	json_decref(t);
	t = reply_text(NULL, 0);
	assert_string_equal(json_string_value(t), "");
	json_decref(t);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_whole_answer_is_one_object),
	cmocka_unit_test(the_best_texts_are_chosen_by_their_mean),
	cmocka_unit_test(events_bring_each_piece_once),
	cmocka_unit_test(usage_is_a_chunk_of_its_own),
	cmocka_unit_test(chunks_have_drafts_and_timings_on_request),
	cmocka_unit_test(a_fault_ends_a_stream),
	cmocka_unit_test(embeddings_are_numbers_or_base64),
	cmocka_unit_test(base64_is_padded),
	cmocka_unit_test(what_is_no_utf8_is_replaced),
};
TEST_FILE(tests)
