/* The release both programs belong to; they refuse to pair by the wire's own
 * version, not by this one. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define TANDEM_VERSION "0.1.0"

#endif
