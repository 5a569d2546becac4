/*
 * Reads a user's input, turn by turn. On a terminal, the user can edit lines
 * and recall earlier ones (libedit, with the user's editrc). On a terminal, a
 * turn may have several lines: a backslash at the end of a line continues the
 * turn on the next line, and three quotes begin and end a block of lines. If
 * the input is not a terminal, each line is one turn. Single-threaded.
 */
#ifndef HOST_CMD_CHAT_INPUT_H
#define HOST_CMD_CHAT_INPUT_H

#include <stdbool.h>

struct chat_input;
struct err;
struct strbuf;

enum chat_read {
	CHAT_TURN,
	CHAT_INTERRUPTED, /* Ctrl-C: the input of this turn is discarded */
	CHAT_END
};

/* Open standard input. If `remember`, add the lines typed on a terminal to the
 * user's chat history file. Returns 0 or a negative errno. */
int chat_input_open(struct chat_input **out, bool remember, struct err *);
void chat_input_close(struct chat_input *);
bool chat_input_is_terminal(const struct chat_input *);

/* Read the next turn and store it in *text, whose old content is discarded. If
 * memory runs out, text->failed is set. */
enum chat_read chat_input_read(struct chat_input *, struct strbuf *text);

#endif
