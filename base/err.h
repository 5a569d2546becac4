/*
 * A failure is returned as a negative errno (or -ERR_DEVICE_LOST), with a
 * message in a `struct err` that the caller owns. The message names the fault
 * and its place, and if possible a remedy; it starts in lower case, without
 * full stop or program name: `main` prints "tandem: MESSAGE".
 *
 * Libraries fill it and return; they never print and never exit. A NULL
 * `struct err *` is allowed everywhere.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define ERR_TEXT_MAX 512

/*
 * The one code that is not an errno: the device process died, or was given up
 * because it made no progress. Only code that has detected this returns it; it
 * is never derived from another code. 4096, because the kernel's errors end at
 * 4095, so no system call or library returns it.
 */
#define ERR_DEVICE_LOST 4096

struct err {
	int code; /* the negative code last set, 0 if none */
	char text[ERR_TEXT_MAX];
};

/* Set the code and message of *e and return -code; code > 0. */
int err_set(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As err_set, with ": " and the system's text for `code` at the end. */
int err_sys(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Prepend "WHERE: " to the message of *e and return its code: a caller that has
 * the file name adds it to a message about a field.
 */
int err_in(struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Sanitize a text from another process for a message: every character that is
 * not printable ASCII becomes '?', so that it can neither control a terminal
 * nor look like two lines.
 */
void err_plain(char *text);

#endif
