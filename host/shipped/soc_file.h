/*
 * Profiles of phones: text files of numbers (tensor/soc/soc.h), one a line:
 *
 *	clock_hz  1.4688e9  # npu-tts paper, table 2: 12,032.54 GFLOPS ...
 *
 * a name, a number, and behind '#' where it is from; lines of '#' alone are
 * remarks. Each number stands there once and none is left out, so that no
 * profile changes its meaning when a number is added; one without a source is
 * an error too.
 *
 * Profiles that come with the program are NAME.soc in one folder, which is
 * looked for, in this order, at $TANDEM_SOC, in `soc` beside the executable,
 * in `tensor/soc` of the source tree the executable was built in, and in
 * `share/tandem/soc` of the prefix it is installed in. $TANDEM_SOC, where set,
 * is the only place. Any thread.
 */
#ifndef HOST_SHIPPED_SOC_FILE_H
#define HOST_SHIPPED_SOC_FILE_H

#include <limits.h>
#include <stddef.h>

struct err;
struct soc;

#define SOC_FILE_MAX (64u << 10) /* bytes */

/*
 * The file of a profile: `name` itself when it has a '/' or ends in ".soc",
 * else NAME.soc of those that come with the program. -ENOENT with a message
 * that says where it was looked for.
 */
int soc_file_find(const char *name, char path[PATH_MAX], struct err *);

/* `text` of `len` bytes; messages begin with `path` and the line. -EINVAL, or
 * -ERANGE for a number beyond its limits; *out is then unspecified. */
int soc_file_parse(struct soc *out, const char *path, const char *text,
	size_t len, struct err *);

/* Find, read and parse; -errno with a message. */
int soc_file_load(struct soc *out, const char *name, struct err *);

#endif
