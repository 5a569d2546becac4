#include "host/trace/trace.h"

#include "tensor/soc/price.h"

const char *const trace_kinds[TRACE_KINDS] = {
	[TRACE_KIND_OTHER] = "other",
	[TRACE_KIND_TEXT] = "text",
	[TRACE_KIND_PASS] = "pass",
	[TRACE_KIND_REQUEST] = "request",
	[TRACE_KIND_WAIT] = "wait",
	[TRACE_KIND_LOGITS] = "logits",
	[TRACE_KIND_DRAFT] = "draft",
	[TRACE_KIND_FLASH] = "flash",
	[TRACE_KIND_COPY] = "copy",
	[TRACE_KIND_COMPUTE] = "compute",
	[TRACE_KIND_DMA] = "dma",
	[TRACE_KIND_MAINTENANCE] = "maintenance",
	[TRACE_KIND_LOAD] = "load",
	[TRACE_KIND_MAP] = "map",
	[TRACE_KIND_FAULT] = "fault",
};

#define WORD(type, name) #name,

/* Arguments of the end event of a request to the device. */
#define DONE "seq", "status", TRACE_DONE(WORD)

/* Arguments of an event on a track of the simulated phone: its begin, its
 * duration, and the times of the phone's engines. The list also names an
 * argument "block", but no event has this argument. */
#define PRICE "begin_ps", "took_ps", PRICE_TIMES(WORD) "block"

const struct trace_what trace_what[TRACE_NAMES] = {
	[TRACE_START] = { "start", TRACE_KIND_OTHER, { "layers" } },
	[TRACE_TEXT] = { "text", TRACE_KIND_TEXT,
		{ "prompt_tokens", "phone_ps", "number", "cached",
			"phone_end_ps", "tokens" } },
	[TRACE_PROMPT] = { "prompt", TRACE_KIND_OTHER, { "tokens" } },
	[TRACE_PASS] = { "pass", TRACE_KIND_PASS,
		{ "asked", "rows", "padded" } },
	[TRACE_WAIT] = { "wait for the device", TRACE_KIND_WAIT,
		{ "under_way" } },
	[TRACE_FLASH_WAIT] = { "wait for flash", TRACE_KIND_WAIT, { "layer" } },
	[TRACE_LOGITS] = { "logits", TRACE_KIND_LOGITS, { "rows" } },
	[TRACE_DRAFT] = { "draft", TRACE_KIND_DRAFT, { NULL } },
	[TRACE_REFRESH] = { "refresh", TRACE_KIND_OTHER, { "rows" } },
	[TRACE_COPY] = { "copy of weights", TRACE_KIND_COPY,
		{ "block", "bytes" } },
	[TRACE_RESTART] = { "restart", TRACE_KIND_FAULT, { "generation" } },
	[TRACE_PUBLISH] = { "publish", TRACE_KIND_OTHER, { "seq" } },
	[TRACE_COMPLETE] = { "complete", TRACE_KIND_OTHER, { "seq" } },
	[TRACE_LOST] = { "device lost", TRACE_KIND_FAULT, { "under_way" } },

	[TRACE_EVENTS_LOST] = { "events of the device lost", TRACE_KIND_FAULT,
		{ "events" } },
	[TRACE_CPU_WRITE] = { "CPU write", TRACE_KIND_OTHER,
		{ "offset", "bytes", "bracket" } },

	[TRACE_ROTATED] = { "rotated", TRACE_KIND_OTHER, { "packets" } },

	[TRACE_QUEUED] = { "queued", TRACE_KIND_WAIT, { "number" } },
	[TRACE_DECODE] = { "decode", TRACE_KIND_OTHER, { NULL } },
	[TRACE_SHARED] = { "rows of a pass", TRACE_KIND_PASS,
		{ "rows", "pass" } },

	[TRACE_DEVICE_REQUEST] = { "request", TRACE_KIND_REQUEST,
		{ "seq", "op", "status" } },
	[TRACE_DEVICE_OPERATOR] = { "operator", TRACE_KIND_COMPUTE,
		{ "layer", "dma_bytes" } },
	[TRACE_DEVICE_SHARE] = { "share", TRACE_KIND_COMPUTE, { "layer" } },
	[TRACE_DEVICE_INVALIDATE] = { "invalidate", TRACE_KIND_MAINTENANCE,
		{ "address", "bytes", "bracket" } },
	[TRACE_DEVICE_CLEAN] = { "clean", TRACE_KIND_MAINTENANCE,
		{ "address", "bytes" } },
	[TRACE_DEVICE_EVICT] = { "evict", TRACE_KIND_MAINTENANCE, { "lines" } },
	[TRACE_DEVICE_LOAD] = { "graph load", TRACE_KIND_LOAD,
		{ "graph", "seq" } },
	[TRACE_DEVICE_VIOLATION] = { "violation", TRACE_KIND_FAULT,
		{ "from", "to", "bracket" } },
	[TRACE_DEVICE_DMA] = { "DMA", TRACE_KIND_DMA,
		{ "layer", "bytes", "copied_ns" } },

	[TRACE_REQUEST] = { "request", TRACE_KIND_REQUEST, { DONE } },
	[TRACE_NOP] = { "nop", TRACE_KIND_REQUEST, { DONE } },
	[TRACE_MAP] = { "map", TRACE_KIND_REQUEST, { DONE } },
	[TRACE_UNMAP] = { "unmap", TRACE_KIND_REQUEST, { DONE } },
	[TRACE_GRAPH_LOAD] = { "graph load", TRACE_KIND_REQUEST, { DONE } },
	[TRACE_GRAPH_DROP] = { "graph drop", TRACE_KIND_REQUEST, { DONE } },
	[TRACE_GRAPH_RUN] = { "graph run", TRACE_KIND_REQUEST, { DONE } },
	[TRACE_SOC] = { "soc", TRACE_KIND_REQUEST, { DONE } },
	[TRACE_UNMAP_EXTENDED] = { "unmap extended", TRACE_KIND_REQUEST,
		{ DONE } },

	[TRACE_READ] = { "read", TRACE_KIND_FLASH, { "offset", "bytes" } },
	[TRACE_MAPPING] = { "mapping", TRACE_KIND_MAP, { "address", "bytes" } },

	[TRACE_PHONE_WORK] = { "work", TRACE_KIND_OTHER, { PRICE } },
	[TRACE_PHONE_LOGITS] = { "logits", TRACE_KIND_LOGITS, { PRICE } },
	[TRACE_PHONE_DRAW] = { "draw", TRACE_KIND_OTHER, { PRICE } },
	[TRACE_PHONE_DRAFT] = { "draft", TRACE_KIND_DRAFT, { PRICE } },
	[TRACE_PHONE_REFRESH] = { "refresh", TRACE_KIND_OTHER, { PRICE } },
	[TRACE_PHONE_BESIDE] = { "refresh beside", TRACE_KIND_OTHER,
		{ PRICE } },
	[TRACE_PHONE_WAIT] = { "wait", TRACE_KIND_WAIT, { PRICE } },
	[TRACE_PHONE_RUN] = { "run", TRACE_KIND_COMPUTE, { PRICE } },
	[TRACE_PHONE_LOAD] = { "graph load", TRACE_KIND_LOAD, { PRICE } },
	[TRACE_PHONE_READ] = { "read", TRACE_KIND_FLASH, { PRICE } },
	[TRACE_PHONE_COPY] = { "copy", TRACE_KIND_COPY, { PRICE } },

	[TRACE_ROWS] = { "rows of a pass", TRACE_KIND_PASS, { NULL } },
	[TRACE_PADDED_ROWS] = { "rows of padding", TRACE_KIND_PASS, { NULL } },
	[TRACE_KV_SLOTS] = { "KV slots in use", TRACE_KIND_OTHER, { NULL } },
	[TRACE_WINDOW_MAPPED] = { "window: bytes mapped", TRACE_KIND_MAP,
		{ NULL } },
	[TRACE_WINDOW_HOLES] = { "window: holes", TRACE_KIND_MAP, { NULL } },
	[TRACE_WINDOW_LARGEST] = { "window: largest hole", TRACE_KIND_MAP,
		{ NULL } },
	[TRACE_FLASH_READS] = { "flash reads in flight", TRACE_KIND_FLASH,
		{ NULL } },
};
