/*
 * The part of Perfetto's trace format that Tandem writes and reads: the field
 * numbers of Perfetto's public schema (trace_packet.proto, track_event.proto,
 * track_descriptor.proto, interned_data.proto), and how Tandem uses these
 * fields. No code.
 *
 * A trace is a sequence of packets. A packet assigns a number to a name before
 * events contain the number. A packet that describes a track precedes the first
 * event on the track. A slice consists of a begin event and an end event; the
 * events of a track are in the order of time. The category of an event is the
 * name of its enum trace_kind.
 */
#ifndef HOST_TRACE_PERFETTO_H
#define HOST_TRACE_PERFETTO_H

enum { PF_TRACE_PACKET = 1 };

enum {                    /* fields of TracePacket */
	PF_TIMESTAMP = 8, /* in ns */
	PF_SEQUENCE_ID = 10,
	PF_TRACK_EVENT = 11,
	PF_INTERNED_DATA = 12,
	PF_SEQUENCE_FLAGS = 13,
	PF_TRACK_DESCRIPTOR = 60,
};

enum { PF_STATE_CLEARED = 1, PF_NEEDS_STATE = 2 };

enum { /* fields of InternedData; each entry has PF_IID and PF_IID_NAME */
	PF_CATEGORIES = 1,
	PF_EVENT_NAMES = 2,
	PF_ARGUMENT_NAMES = 3,
};
enum { PF_IID = 1, PF_IID_NAME = 2 };

enum { /* fields of TrackEvent */
	PF_CATEGORY_IID = 3,
	PF_ARGUMENT = 4,
	PF_TYPE = 9,
	PF_NAME_IID = 10,
	PF_TRACK_UUID = 11,
	PF_COUNTER_VALUE = 30,
	PF_FLOW = 47,     /* type fixed64 */
	PF_FLOW_END = 48, /* type fixed64 */
};
enum { PF_SLICE_BEGIN = 1, PF_SLICE_END, PF_INSTANT, PF_COUNTER };

enum { /* fields of DebugAnnotation */
	PF_ARG_NAME_IID = 1,
	PF_ARG_UINT = 3,
	PF_ARG_INT = 4,
	PF_ARG_STRING = 6,
};

enum { /* fields of TrackDescriptor */
	PF_UUID = 1,
	PF_TRACK_NAME = 2,
	PF_PROCESS = 3,
	PF_THREAD = 4,
	PF_PARENT_UUID = 5,
	PF_COUNTER_TRACK = 8,
};
enum { PF_PROCESS_PID = 1, PF_PROCESS_NAME = 6 };
enum { PF_THREAD_PID = 1, PF_THREAD_TID = 2, PF_THREAD_NAME = 5 };

#endif
