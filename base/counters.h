/*
 * Tables of counters. The counters of a component are listed once, in a macro
 * of rows X(type, name), each row with a comment. The members of a struct, and
 * the statements that add or subtract all members, are made from this macro:
 *
 *   #define THING_STATS(X) X(uint64_t, passes) X(double, gain)
 *   struct thing_stats { THING_STATS(COUNTER_MEMBER) };
 *
 * COUNTER_MEMBER declares a member. COUNTER_ADD expands to `sum->name +=
 * more->name`, and COUNTER_SUBTRACT to `now->name -= before->name`. A function
 * that uses COUNTER_ADD must declare the pointers `sum` and `more`; a function
 * that uses COUNTER_SUBTRACT, the pointers `now` and `before`.
 */
#ifndef BASE_COUNTERS_H
#define BASE_COUNTERS_H

#define COUNTER_MEMBER(type, name)   type name;
#define COUNTER_ADD(type, name)      sum->name += more->name;
#define COUNTER_SUBTRACT(type, name) now->name -= before->name;

#endif
