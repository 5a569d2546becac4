/*
 * Profiles of phones: text files of numbers (tensor/soc/soc.h), one on each
 * line:
 *
 * 	clock_hz 1.4688e9 # npu-tts paper, table 2: 12,032.54 GFLOPS ...
 *
 * a name, a number, and after '#' its source; lines that begin with '#' are
 * comments. Each name must occur exactly once, so that a new number cannot
 * change the meaning of an old profile silently; a missing source is an error
 * too.
 *
 * Bundled profiles are NAME.soc in one folder, which is searched for at
 * $TANDEM_SOC and, if that is not set, in `soc` next to the executable, in
 * `tensor/soc` of the source tree the executable was built in, and in
 * `share/tandem/soc` of the installation prefix. Any thread.
 */
#ifndef HOST_SHIPPED_SOC_FILE_H
#define HOST_SHIPPED_SOC_FILE_H

#include <limits.h>
#include <stddef.h>

struct err;
struct soc;

#define SOC_FILE_MAX (64u << 10) /* bytes */

/*
 * The file of a profile: `name` itself if it contains a '/' or ends in ".soc",
 * otherwise the bundled NAME.soc. -ENOENT with a message that lists the places
 * searched.
 */
int soc_file_find(const char *name, char path[PATH_MAX], struct err *);

/* Parse `text` of `len` bytes; messages begin with `path` and the line.
 * -EINVAL, or -ERANGE for a number beyond its limits; *out is then
 * unspecified. */
int soc_file_parse(struct soc *out, const char *path, const char *text,
	size_t len, struct err *);

/* Find, read and parse a profile; -errno with a message. */
int soc_file_load(struct soc *out, const char *name, struct err *);

#endif
