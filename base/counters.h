/*
 * Counters that are added up, subtracted or written somewhere are listed once,
 * in a table: a macro of rows X(type, name), each with a comment. The members
 *of a struct come from it, and the statements that go through all of them:
 *
 *	#define THING_STATS(X)    X(uint64_t, passes) X(double, gain)
 *	struct thing_stats { THING_STATS(COUNTER_MEMBER) };
 *
 * A member of the type that its row names; in a function that has the pointers
 * `sum` and `more`, or `now` and `before`, one added to or subtracted from the
 * other.
 */
#ifndef BASE_COUNTERS_H
#define BASE_COUNTERS_H

#define COUNTER_MEMBER(type, name)   type name;
#define COUNTER_ADD(type, name)      sum->name += more->name;
#define COUNTER_SUBTRACT(type, name) now->name -= before->name;

#endif
