/*
 * D-Bus introspection data: the installed XML files, which the build turns into
 * C strings. Constant.
 */
#ifndef HOST_SERVE_BUS_XML_H
#define HOST_SERVE_BUS_XML_H

extern const char bus_engine_xml[], bus_text_xml[];

#endif
