/*
 * The release of both programs, `tandem` (host) and `tandem-npu` (device). Two
 * programs work together if they have the same WIRE_VERSION; this version is
 * not compared.
 */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define TANDEM_VERSION "0.1.0"

#endif
