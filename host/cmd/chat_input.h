/*
 * What a user types, turn by turn. On a terminal lines are edited and
 * remembered (libedit, by the user's own editrc), and a turn may have several:
 * a line that ends in a backslash goes on with the next, and a line of three
 * quotes begins what another one ends. From anything else a line is a turn,
 * as it is. One thread.
 */
#ifndef HOST_CMD_CHAT_INPUT_H
#define HOST_CMD_CHAT_INPUT_H

#include <stdbool.h>

struct chat_input;
struct err;
struct strbuf;

enum chat_read {
	CHAT_TURN,
	CHAT_INTERRUPTED, /* Ctrl-C: what was typed of the turn is dropped */
	CHAT_END
};

/* `remember`: lines of a terminal go to a file of the user's. */
int chat_input_open(struct chat_input **out, bool remember, struct err *);
void chat_input_close(struct chat_input *);
bool chat_input_is_terminal(const struct chat_input *);

/* The next turn, in place of what *text holds; it has failed where there is no
 * memory for the turn. */
enum chat_read chat_input_read(struct chat_input *, struct strbuf *text);

#endif
