/*
 * Model files are mapped, and a map does not follow its file: reading what was
 * cut off since, or what the disk cannot give any more, is SIGBUS. Nothing can
 * be computed then, so the program ends; but with a sentence that names the
 * file, and its own exit code.
 *
 * For the program alone, whose signals these are: libtandem handles none.
 */
#ifndef HOST_CMD_CUT_SHORT_H
#define HOST_CMD_CUT_SHORT_H

/* From now on such a read ends with EXIT_FAIL; any other SIGBUS as ever. */
void cut_short_catch(void);

#endif
