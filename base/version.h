/* The release of both programs. Whether they can pair is decided by
 * WIRE_VERSION, not by this one. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define TANDEM_VERSION "0.1.0"

#endif
