/*
 * Which sanitizer this is built with: 1 or 0. gcc and clang say it in
 * different ways. For what a sanitizer's runtime cannot live with, such as
 * a seccomp filter or a small address space.
 */
#ifndef BASE_SANITIZER_H
#define BASE_SANITIZER_H

#ifndef __has_feature /* clang's */
#define __has_feature(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SANITIZER_ADDRESS 1
#else
#define SANITIZER_ADDRESS 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SANITIZER_THREAD 1
#else
#define SANITIZER_THREAD 0
#endif

#endif
