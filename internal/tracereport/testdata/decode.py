"""Decodes a trace by Perfetto's published definitions (package perfetto) and prints its totals as JSON."""

import collections
import json
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

trace = Trace()
with open(sys.argv[1], "rb") as f:
    trace.ParseFromString(f.read())

names = {}  # interned, by field and id
tracks = {}  # uuid: descriptor
ranks = {}  # uuid of a process: arguments of its event "rank"
spans = collections.defaultdict(lambda: [0, 0])  # by process, stream and kind: count, nanoseconds
open_slices = collections.defaultdict(list)
begins, ends = collections.defaultdict(list), collections.defaultdict(list)  # flows
unknown = 0


def size(m):
    """Counts the unknown fields of a message and of those in it."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    n = len(UnknownFieldSet(m))
    for field, value in m.ListFields():
        if field.message_type is not None:
            n += sum(size(v) for v in value) if field.is_repeated else size(value)
    return n


def interned(field, i):
    return names[field, i]


for p in trace.packet:
    unknown += size(p)
    for field, entries in (
        ("category", p.interned_data.event_categories),
        ("name", p.interned_data.event_names),
        ("annotation", p.interned_data.debug_annotation_names),
        ("string", p.interned_data.debug_annotation_string_values),
    ):
        for e in entries:
            names[field, e.iid] = e.str.decode() if field == "string" else e.name
    if p.HasField("track_descriptor"):
        tracks[p.track_descriptor.uuid] = p.track_descriptor
    if not p.HasField("track_event"):
        continue
    e = p.track_event
    category = interned("category", e.category_iids[0]) if e.category_iids else ""
    args = {}
    for a in e.debug_annotations:
        args[interned("annotation", a.name_iid)] = interned("string", a.string_value_iid) if a.string_value_iid else a.int_value
    if e.type == TrackEvent.TYPE_INSTANT and category == "rank":
        ranks[e.track_uuid] = args
    elif e.type == TrackEvent.TYPE_SLICE_BEGIN:
        if category not in ("held",):
            assert interned("name", e.name_iid), e
        open_slices[e.track_uuid].append((p.timestamp, category))
        for f in e.flow_ids:
            begins[f].append((p.timestamp, tracks[e.track_uuid].parent_uuid))
        for f in e.terminating_flow_ids:
            ends[f].append((p.timestamp, tracks[e.track_uuid].parent_uuid))
    elif e.type == TrackEvent.TYPE_SLICE_END:
        start, category = open_slices[e.track_uuid].pop()
        t = tracks[e.track_uuid]
        total = spans[t.parent_uuid, t.name.split()[0] + "/" + category]
        total[0] += 1
        total[1] += p.timestamp - start

assert not any(open_slices.values()), "a slice does not end"
assert set(ends) <= set(begins), "an arrow without a beginning"
arrows = 0
for f, [(at, _)] in begins.items():
    for to, _ in ends[f]:
        assert to >= at, "an arrow leads back in time"
        arrows += 1
out = {"unknown": unknown, "arrows": arrows, "ranks": {}}
for uuid, args in ranks.items():
    assert tracks[uuid].process.process_name.startswith("rank %d" % args["rank"])
    out["ranks"][args["rank"]] = {
        "args": args,
        "spans": {k: v for (of, k), v in spans.items() if of == uuid and not k.endswith("/held")},
        "held": sum(v[0] for (of, k), v in spans.items() if of == uuid and k.endswith("/held")),
        "from": [ranks[p]["rank"] for f in ends for _, to in ends[f] if to == uuid for _, p in begins[f]],
    }
print(json.dumps(out))
