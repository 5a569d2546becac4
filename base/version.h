/*
 * The release of both programs, `tandem` (host) and `tandem-npu` (device). A
 * host and a device work together if their WIRE_VERSION is equal, even if their
 * releases differ.
 */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define TANDEM_VERSION "0.1.0"

#endif
