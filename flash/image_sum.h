/*
 * Checksums of a flash image's extents, in one piece or as the bytes come. By
 * the version of the format: XXH64 in the first, XXH3 (64 bits) since, which
 * takes a processor with wide vectors half the time or less; on x86 by the
 * widest instructions that it has. All with seed 0. A sum has one thread.
 */
#ifndef FLASH_IMAGE_SUM_H
#define FLASH_IMAGE_SUM_H

#include <stddef.h>
#include <stdint.h>

enum image_sum_kind { IMAGE_XXH64, IMAGE_XXH3 };

struct image_sum;

/* NULL: no memory. */
struct image_sum *image_sum_open(void);
void image_sum_close(struct image_sum *); /* NULL is nothing */

/* Begin, again and again; then all bytes in order. */
void image_sum_begin(struct image_sum *, enum image_sum_kind);
void image_sum_add(struct image_sum *, const void *data, size_t n);
uint64_t image_sum_so_far(const struct image_sum *);

uint64_t image_sum_of(enum image_sum_kind, const void *data, size_t n);

#endif
