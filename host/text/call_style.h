/*
 * The strings with which a family of chat templates writes tools, calls and
 * results, as a table for the files that implement chat_tools.h. The strings
 * are copied from the templates, because the models were trained with them.
 */
#ifndef HOST_TEXT_CALL_STYLE_H
#define HOST_TEXT_CALL_STYLE_H

#include <stdbool.h>
#include <stddef.h>

/* Place of the list of tools in the prompt. */
enum tools_place {
	/* the list of tools follows the text of the system turn */
	TOOLS_IN_SYSTEM,
	/* the list of tools precedes the text of the first user turn */
	TOOLS_IN_FIRST_USER,
	/* the list of tools is written between turns, directly before the last
	 * user turn */
	TOOLS_BEFORE_LAST_USER,
};

struct call_style {
	/* Format of calls in the output. A call is `open`, the tool's name,
	 * `middle`, the arguments and `close`. `marker` precedes the first
	 * call; it is "" if calls cannot be distinguished from text. `again` is
	 * between two calls; NULL: at most one call. */
	const char *marker, *open, *middle, *close, *again;
	/* substrings of marker, open, middle, close and again that are control
	 * tokens in some vocabularies */
	const char *tags[2];
	/* whether calls are allowed only at the start of an answer */
	bool at_start;
	/* whether the calls are the elements of a JSON array */
	bool array;

	/* Format of the list of tools in the prompt. Each tool is written as
	 * JSON with the indentation `indent`. */
	enum tools_place place;
	size_t indent;
	const char *tools_open, *tools_between, *tools_close;

	/* Format of calls in the prompt: `first` precedes the first call,
	 * `next` each further call, and `last` follows the last call. With
	 * bare_calls, calls are outside of assistant turns. If calls follow an
	 * answer's text, answer_lead is written before the answer's text. If
	 * the answer is given as tokens, which include its calls, answer_end is
	 * written after the tokens. */
	bool bare_calls;
	const char *answer_lead, *answer_end;
	const char *first, *next, *last;
	bool ids; /* whether a call has an id, which its result repeats */

	/* Format of results in the prompt, in a user turn or, with
	 * bare_results, outside of turns. result_open precedes a result, or
	 * result_again if the result shares its turn with the result before it;
	 * result_close follows. With `ids` a result has the id of its call: if
	 * result_id is not NULL, the id and then the string result_id precede
	 * the text; otherwise the result is the JSON object {"content": text as
	 * JSON, "call_id": id}. */
	bool bare_results;
	/* whether the text of a result is written as a JSON string */
	bool result_quoted;
	const char *result_open, *result_again, *result_close, *result_id;
};

#endif
