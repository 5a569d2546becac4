/*
 * Descriptors of user DMA. Type 0 moves `length` bytes; type 1 moves
 * `roiheight` rows of `roiwidth` bytes, with the strides in bytes. The members
 * that select compression, cache bypass and order have no effect: DMA always
 * bypasses the cache, and descriptors of one chain are done in order. Width
 * offsets have no effect either. Pointers have the width of this machine.
 */
#ifndef TANDEM_HEXAGON_TYPES_H
#define TANDEM_HEXAGON_TYPES_H

#define HEXAGON_UDMA_DESC_DESCTYPE_TYPE0    0
#define HEXAGON_UDMA_DESC_DESCTYPE_TYPE1    1
#define HEXAGON_UDMA_DESC_DSTATE_INCOMPLETE 0
#define HEXAGON_UDMA_DESC_DSTATE_COMPLETE   1
#define HEXAGON_UDMA_DESC_ORDER_NOORDER     0
#define HEXAGON_UDMA_DESC_ORDER_ORDER       1
#define HEXAGON_UDMA_DESC_BYPASS_OFF        0
#define HEXAGON_UDMA_DESC_BYPASS_ON         1
#define HEXAGON_UDMA_DESC_COMP_NONE         0

typedef struct {
	void *next; /* next descriptor of the chain; NULL for the last */
	unsigned length : 24;
	unsigned desctype : 2;
	unsigned dstcomp : 1;
	unsigned srccomp : 1;
	unsigned dstbypass : 1;
	unsigned srcbypass : 1;
	unsigned order : 1;
	/* 1: a wait or poll has seen the end of the transfer */
	unsigned dstate : 1;
	void *src;
	void *dst;
} hexagon_udma_descriptor_type0_t;

typedef struct {
	void *next;
	unsigned length : 24;
	unsigned desctype : 2;
	unsigned dstcomp : 1;
	unsigned srccomp : 1;
	unsigned dstbypass : 1;
	unsigned srcbypass : 1;
	unsigned order : 1;
	unsigned dstate : 1;
	void *src;
	void *dst;
	unsigned allocation : 28;
	unsigned padding : 4;
	unsigned roiwidth : 16;
	unsigned roiheight : 16;
	unsigned srcstride : 16;
	unsigned dststride : 16;
	unsigned srcwidthoffset : 16;
	unsigned dstwidthoffset : 16;
} hexagon_udma_descriptor_type1_t;

#endif
