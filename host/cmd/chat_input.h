/*
 * A user's input, turn by turn. On a terminal, lines are edited and remembered
 * (libedit, with the user's editrc), and a turn may have several lines: a
 * backslash at the end of a line continues it, and three quotes begin and end a
 * block of lines. From anything else each line is one turn. One thread.
 */
#ifndef HOST_CMD_CHAT_INPUT_H
#define HOST_CMD_CHAT_INPUT_H

#include <stdbool.h>

struct chat_input;
struct err;
struct strbuf;

enum chat_read {
	CHAT_TURN,
	CHAT_INTERRUPTED, /* Ctrl-C: the input of this turn is dropped */
	CHAT_END
};

/* `remember`: keep the terminal's lines in a file in the user's directory. */
int chat_input_open(struct chat_input **out, bool remember, struct err *);
void chat_input_close(struct chat_input *);
bool chat_input_is_terminal(const struct chat_input *);

/* Read the next turn into *text, which it replaces. *text has failed if there
 * was no memory. */
enum chat_read chat_input_read(struct chat_input *, struct strbuf *text);

#endif
