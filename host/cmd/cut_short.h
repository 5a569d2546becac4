/*
 * Model files are mapped. If a file is truncated while mapped, or the disk
 * fails, a read of the mapping raises SIGBUS. No computation can continue then,
 * so the program ends, but with a message that names the file, and with its own
 * exit status.
 *
 * For the program only, as signals belong to it: libtandem handles none.
 */
#ifndef HOST_CMD_CUT_SHORT_H
#define HOST_CMD_CUT_SHORT_H

/* From now on such a read ends with EXIT_FAIL; any other SIGBUS has its default
 * action. */
void cut_short_catch(void);

#endif
