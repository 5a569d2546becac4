/*
 * How a failure travels: as a negative errno (or -ERR_DEVICE_LOST), and beside
 * it a sentence in a `struct err` that the caller owns. The sentence says what
 * is wrong and where, and if possible what to try; it starts in lower case, has
 * no full stop and no program name: `main` prints "tandem: SENTENCE".
 *
 * Libraries fill it and return; they never print and never exit. A NULL
 * `struct err *` is allowed everywhere.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define ERR_TEXT_MAX 512

/*
 * The one code that is no errno: the device process died, or made no progress
 * for so long that it was given up. Whoever returns it knows that; nobody
 * concludes it from another code. 4096 because the kernel's errors end at
 * 4095, so that no system call and no library can say it by chance.
 */
#define ERR_DEVICE_LOST 4096

struct err {
	int code; /* the negative code last set, 0 if none */
	char text[ERR_TEXT_MAX];
};

/* Fill *e (replacing what it said) and return -code; code > 0. */
int err_set(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As err_set, with ": " and the system's text for `code` at the end. */
int err_sys(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Put "WHERE: " in front of what *e says and return its code: a caller that
 * knows the file adds it to the message of one that knows the field.
 */
int err_in(struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Another process's text on its way into a sentence: whatever is not a
 * printable character of ASCII becomes '?', so that no terminal takes it for an
 * order and no line is made to look like two.
 */
void err_plain(char *text);

#endif
