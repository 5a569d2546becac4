/*
 * How a family of chat templates writes tools, calls and results: a table of
 * strings that the files of chat_tools.h share. The strings are those of the
 * templates, because the models were trained with them.
 */
#ifndef HOST_TEXT_CALL_STYLE_H
#define HOST_TEXT_CALL_STYLE_H

#include <stdbool.h>
#include <stddef.h>

enum tools_place {
	TOOLS_IN_SYSTEM,        /* after the text of the system turn */
	TOOLS_IN_FIRST_USER,    /* before the text of the first user turn */
	TOOLS_BEFORE_LAST_USER, /* outside of turns */
};

struct call_style {
	/* Output: struct json_calls describes these members. `marker` is "" if
	 * calls cannot be distinguished from text. */
	const char *marker, *open, *middle, *close, *again;
	/* parts of these texts that are control tokens in some vocabularies */
	const char *tags[2];
	bool at_start; /* a call is the beginning of an answer, or none is */
	bool array;

	/* The list of tools: each as JSON with this indentation. */
	enum tools_place place;
	size_t indent;
	const char *tools_open, *tools_between, *tools_close;

	/* Calls in the prompt: text before the first and each further one, and
	 * after the last one. bare_calls: they are not part of an assistant
	 * turn, and answer_lead precedes text before them and answer_end
	 * follows calls that are given as tokens. */
	bool bare_calls;
	const char *answer_lead, *answer_end;
	const char *first, *next, *last;
	bool ids; /* calls have an id, results that of their call */

	/* Results, without (bare_results) or within a user turn. With `ids` the
	 * result's id is before the text if `result_id` is not NULL, which
	 * comes between them; otherwise the text is a JSON value and the id
	 * follows as JSON. */
	bool bare_results;
	bool result_quoted; /* the text is a JSON string */
	const char *result_open, *result_again, *result_close, *result_id;
};

#endif
