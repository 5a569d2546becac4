"""Holds a trace against its run: decode.py FOLDER TRACE RUN.json

FOLDER has trace_pb2.py, which protoc made of trace.proto. RUN.json is what
`tandem run --json` said. Prints what is wrong, one a line; the last line says
what was looked at. Status 1 when something is wrong.
"""

import json
import sys
from collections import Counter, defaultdict

sys.path.insert(0, sys.argv[1])
import trace_pb2  # noqa: E402

wrong = []


def check(what, got, want):
    if got != want:
        wrong.append(f"{what} is {got}, not {want}")


class Slice:
    def __init__(self, name, kind, track, at, args):
        self.name, self.kind, self.track = name, kind, track
        self.begin, self.end, self.args = at, None, args
        self.in_text = False


def unknown_fields(message):
    """Bytes that the schema has no name for would be lost in a copy."""
    return len(message.SerializeToString()) - len(
        type(message).FromString(known_bytes(message)).SerializeToString())


def known_bytes(message):
    copy = type(message)()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    return copy.SerializeToString()


def read(path):
    trace = trace_pb2.Trace()
    with open(path, "rb") as f:
        trace.ParseFromString(f.read())
    return trace


def walk(trace):
    names, kinds, args = {}, {}, {}
    tracks, last, open_, slices, counters = {}, Counter(), defaultdict(list), [], Counter()
    flows, ends = Counter(), Counter()
    in_text = 0
    event_type = trace_pb2.TrackEvent
    for packet in trace.packet:
        check("the sequence", packet.trusted_packet_sequence_id, 1)
        for table, of in ((kinds, packet.interned_data.event_categories),
                          (names, packet.interned_data.event_names),
                          (args, packet.interned_data.debug_annotation_names)):
            table.update((n.iid, n.name) for n in of)
        if packet.HasField("track_descriptor"):
            t = packet.track_descriptor
            check(f"track {t.uuid} seen before", t.uuid in tracks, False)
            tracks[t.uuid] = t
        if not packet.HasField("track_event"):
            continue
        e = packet.track_event
        if e.track_uuid not in tracks:
            wrong.append(f"an event on track {e.track_uuid}, which is none")
            continue
        if packet.timestamp < last[e.track_uuid]:
            wrong.append(f"time goes back on track {e.track_uuid}")
        last[e.track_uuid] = packet.timestamp
        if e.type == event_type.TYPE_COUNTER:
            check("a counter's track", tracks[e.track_uuid].HasField("counter"), True)
            counters[tracks[e.track_uuid].name] += 1
            continue
        said = {args[a.name_iid]: a.uint_value for a in e.debug_annotations}
        if e.type == event_type.TYPE_SLICE_END:
            if not open_[e.track_uuid]:
                wrong.append(f"an end without a beginning on {e.track_uuid}")
                continue
            s = open_[e.track_uuid].pop()
            s.end = packet.timestamp
            s.args.update(said)
            in_text -= s.name == "text"
            continue
        s = Slice(names[e.name_iid], kinds[e.category_iids[0]], e.track_uuid,
                  packet.timestamp, said)
        flows.update(e.flow_ids)
        ends.update(e.terminating_flow_ids)
        slices.append(s)
        if e.type == event_type.TYPE_SLICE_BEGIN:
            open_[e.track_uuid].append(s)
            in_text += s.name == "text"
        else:
            s.end = s.begin
        s.in_text = in_text > 0
    for track, left in open_.items():
        check(f"slices of track {track} without an end", len(left), 0)
    return tracks, slices, counters, flows, ends


def main():
    trace, run = read(sys.argv[2]), json.load(open(sys.argv[3]))
    check("bytes that the schema does not know", unknown_fields(trace), 0)
    tracks, slices, counters, flows, ends = walk(trace)

    def on(name):
        return [s for s in slices if tracks[s.track].name == name and s.in_text]

    def total(of, key):
        return sum(s.args.get(key, 0) for s in of)

    requests, passes = on("requests"), [s for s in slices if s.name == "pass" and s.in_text]
    check("passes", len(passes), run["passes"])
    check("rows", total(passes, "rows"), run["rows"])
    check("rows of padding", total(passes, "padded"), run["padded_rows"])
    check("requests", len(requests), run["round_trips"])
    for key in ("dma_bytes", "invalidated_lines", "cleaned_lines", "evicted_lines"):
        check(key, total(requests, key), run[key])
    check("seconds of the device", round(total(requests, "busy_ns") * 1e-9, 6),
          round(run["device_s"], 6))
    # Every request: published, worked on by the device, completed.
    check("flows that end", set(ends) <= set(flows), True)
    check("flows of requests without an end",
          [f for f in flows if f < 1 << 63 and f not in ends], [])
    device = [s for s in slices if "seq" in s.args and s.kind == "request"
              and tracks[tracks[s.track].parent_uuid].process.process_name == "tandem-npu"]
    runs = [s for s in device if s.args["op"] == 6]
    check("runs of the device", len(runs),
          len([s for s in slices if s.name == "graph run"]) - len(runs))
    texts = [s for s in slices if s.name == "text"]
    # The device tells late: what of it lies in a text is a matter of time.
    dma = [s for s in slices if tracks[s.track].name == "DMA"
           and any(t.begin <= s.begin < t.end for t in texts)]
    check("bytes on the DMA track", total(dma, "bytes"), run["dma_bytes"])
    mapped = [s for s in slices if tracks[s.track].name == "window"]
    asked = Counter(s.name for s in slices if tracks[s.track].name == "requests"
                    and not s.args.get("status"))
    check("mappings", len(mapped), asked["map"])
    for s in mapped:
        check(f"address of {s.name}", s.args.get("address", 0) > 0, True)
    for name in ("bytes mapped", "holes", "largest hole"):
        check(f"points of 'window: {name}'", counters["window: " + name],
              asked["map"] + asked["unmap"])
    if run.get("phone"):
        cpu = on("phone CPU")
        check("the phone's picoseconds", total(cpu, "took_ps"), run["phone"]["total_ps"])
        check("the phone's last", sum(t.args["phone_end_ps"] - t.args.get("phone_ps", 0)
                                      for t in texts), run["phone"]["total_ps"])
    for name in ("rows of a pass", "rows of padding", "KV slots in use"):
        check(f"points of '{name}'", counters[name] >= run["passes"], True)
    for line in wrong:
        print(line)
    print(f"{len(trace.packet)} packets, {len(slices)} slices and instants, "
          f"{len(runs)} runs of the device, {len(flows)} flows")
    return 1 if wrong else 0


sys.exit(main())
