"""Prints what TensorBoard reads from a directory of event files, as JSON."""
import json
import sys

from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.util import tensor_util

a = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
a.Reload()
# The plug-ins read from this one, which converts histograms to the form that they show.
shown = plugin_event_accumulator.EventAccumulator(sys.argv[1])
shown.Reload()
out = {"scalars": {}, "histograms": {}, "texts": {}, "hparams": {}}
for tag in a.Tags()["scalars"]:
    out["scalars"][tag] = [[e.step, repr(e.value)] for e in a.Scalars(tag)]
for tag in a.Tags()["histograms"]:
    e = a.Histograms(tag)[-1]
    v = e.histogram_value
    out["histograms"][tag] = {
        "step": e.step, "min": v.min, "max": v.max, "num": v.num, "sum": v.sum, "sum2": v.sum_squares, "limits": list(v.bucket_limit), "counts": list(v.bucket),
        "shown": tensor_util.make_ndarray(shown.Tensors(tag)[-1].tensor_proto).tolist(),
    }
for tag in a.Tags()["tensors"]:
    plugin = a.SummaryMetadata(tag).plugin_data
    if plugin.plugin_name == "text":
        out["texts"][tag] = [[e.step, tensor_util.make_ndarray(e.tensor_proto)[0].decode()] for e in a.Tensors(tag)]
    elif tag == metadata.SESSION_START_INFO_TAG:
        start = metadata.parse_session_start_info_plugin_data(plugin.content)
        out["group"], out["start"] = start.group_name, start.start_time_secs
        for k, v in start.hparams.items():
            out["hparams"][k] = getattr(v, v.WhichOneof("kind"))
    elif tag == metadata.EXPERIMENT_TAG:
        e = metadata.parse_experiment_plugin_data(plugin.content)
        out["experiment"] = {
            "name": e.name, "created": e.time_created_secs, "metrics": [m.name.tag for m in e.metric_infos],
            "hparams": {i.name: api_pb2.DataType.Name(i.type) for i in e.hparam_infos},
        }
    elif tag == metadata.SESSION_END_INFO_TAG:
        end = metadata.parse_session_end_info_plugin_data(plugin.content)
        out["status"], out["end"] = end.status, end.end_time_secs
print(json.dumps(out))
