/*
 * Counters that are added, subtracted or written are listed once, in a table: a
 * macro of rows X(type, name), each with a comment. The table generates the
 * members of a struct and the statements that process all of them:
 *
 *	#define THING_STATS(X)    X(uint64_t, passes) X(double, gain)
 *	struct thing_stats { THING_STATS(COUNTER_MEMBER) };
 *
 * COUNTER_MEMBER declares a member; COUNTER_ADD, in a function with pointers
 * `sum` and `more`, adds one; COUNTER_SUBTRACT, with `now` and `before`,
 * subtracts one.
 */
#ifndef BASE_COUNTERS_H
#define BASE_COUNTERS_H

#define COUNTER_MEMBER(type, name)   type name;
#define COUNTER_ADD(type, name)      sum->name += more->name;
#define COUNTER_SUBTRACT(type, name) now->name -= before->name;

#endif
