/*
 * D-Bus introspection data: C strings that the build makes from the installed
 * XML files.
 */
#ifndef HOST_SERVE_BUS_XML_H
#define HOST_SERVE_BUS_XML_H

extern const char bus_engine_xml[], bus_text_xml[];

#endif
