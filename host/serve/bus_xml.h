/*
 * What the objects of the bus are, in the words of D-Bus introspection: the
 * files that are installed, which the build makes C strings of. Constant.
 */
#ifndef HOST_SERVE_BUS_XML_H
#define HOST_SERVE_BUS_XML_H

extern const char bus_engine_xml[], bus_text_xml[];

#endif
