/* Result codes of the emulated SDK functions. The names are those of the
 * Hexagon SDK; the numbers may differ. */
#ifndef TANDEM_AEESTDERR_H
#define TANDEM_AEESTDERR_H

typedef int AEEResult;

#define AEE_SUCCESS     0
#define AEE_EFAILED     1
#define AEE_ENOMEMORY   2
#define AEE_EEXPIRED    12
#define AEE_EBADSTATE   13
#define AEE_EBADPARM    14
#define AEE_EWOULDBLOCK 516

#endif
