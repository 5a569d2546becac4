/* The row that adds the drafter echo to the table of drafter kinds. */
#ifndef TESTS_HOST_DRAFT_ECHO_DRAFTER_ECHO_ROW_H
#define TESTS_HOST_DRAFT_ECHO_DRAFTER_ECHO_ROW_H

struct draft_kind;

extern const struct draft_kind draft_kind_echo;

#define MORE_DRAFT_KINDS &draft_kind_echo,

#endif
