/*
 * Error codes and messages. A function returns a failure as a negative errno
 * (or -ERR_DEVICE_LOST) and writes a message into a `struct err` that the
 * caller owns. The message names the fault and where it is, and if possible a
 * remedy. A message starts in lower case and has no full stop and no program
 * name: the program prints "tandem: MESSAGE".
 *
 * Library code fills the struct and returns; library code never prints and
 * never exits. A NULL `struct err *` is allowed everywhere.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define ERR_TEXT_MAX 512

/*
 * The only error code that is not an errno: the device process is lost. Either
 * the process died, or the host stopped using it because it made no progress or
 * gave invalid answers. The value is 4096 because the kernel's error numbers
 * end at 4095, so no system call or library returns it.
 */
#define ERR_DEVICE_LOST 4096

struct err {
	int code; /* code of the last error, negative; 0 if there was none */
	char text[ERR_TEXT_MAX];
};

/* Set the code and the message of *e and return -code. `code` is positive. */
int err_set(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Like err_set, but append ": " and strerror's text for `code` to the
 * message. */
int err_sys(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Prepend the formatted text and ": " to the message of *e, and return the code
 * of *e. For example, a caller that has the file name prepends it to a message
 * about a field of the file.
 */
int err_in(struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Make a string from another process safe for use in a message: replace each
 * character that is not printable ASCII by '?', so that the string cannot
 * control a terminal or start a new line.
 */
void err_plain(char *text);

#endif
