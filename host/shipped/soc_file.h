/*
 * Profiles of phones. A profile is a text file of numbers (tensor/soc/soc.h),
 * with one number on each line:
 *
 *   clock_hz 1.4688e9 # npu-tts paper, table 2: 12,032.54 GFLOPS ...
 *
 * A line consists of a name, a number, and the source of the number after '#'.
 * Lines that begin with '#' are comments. Each name must occur exactly once: a
 * profile that lacks a newly added number is refused, instead of silently using
 * a default. A missing source is also an error.
 *
 * Bundled profiles are files NAME.soc in one folder: $TANDEM_SOC if it is set;
 * otherwise `soc` next to the executable, `tensor/soc` in the source tree in
 * which the executable was built, or `share/tandem/soc` below the installation
 * prefix. Thread-safe.
 */
#ifndef HOST_SHIPPED_SOC_FILE_H
#define HOST_SHIPPED_SOC_FILE_H

#include <limits.h>
#include <stddef.h>

struct err;
struct soc;

#define SOC_FILE_MAX (64u << 10) /* maximum size of a profile in bytes */

/*
 * Find the file of a profile: `name` itself if it contains a '/' or ends in
 * ".soc", otherwise the bundled NAME.soc. Returns 0, or -ENOENT with a message
 * that lists the places searched.
 */
int soc_file_find(const char *name, char path[PATH_MAX], struct err *);

/* Parse the `len` bytes at `text`; messages begin with `path` and the line
 * number. Returns 0 on success, -EINVAL if the text is not valid, or -ERANGE if
 * a number is outside its limits. On failure, *out is unspecified. */
int soc_file_parse(struct soc *out, const char *path, const char *text,
	size_t len, struct err *);

/*
 * Set the number with the name `name` to the decimal number in `number`, and
 * store the index of this name (tensor/soc/soc.h) in *i. Returns 0, or -EINVAL
 * with a message that suggests the nearest name. The caller must check the
 * limits with soc_check.
 */
int soc_file_set(struct soc *, const char *name, const char *number, size_t *i,
	struct err *);

/*
 * Find, read and parse a profile. `name` is as for soc_file_find, and may be
 * followed by changes of the profile's numbers: "sd8gen3,operator_s=0". A comma
 * always begins a change, so a path with a comma cannot be used. Returns 0 or a
 * negative errno.
 */
int soc_file_load(struct soc *out, const char *name, struct err *);

#endif
