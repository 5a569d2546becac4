/* The row that adds the method echo-2 to the table of methods. */
#ifndef TESTS_HOST_METHOD_ECHO_2_ECHO_2_ROW_H
#define TESTS_HOST_METHOD_ECHO_2_ECHO_2_ROW_H

struct method;

extern const struct method method_echo_2;

#define MORE_METHODS &method_echo_2,

#endif
