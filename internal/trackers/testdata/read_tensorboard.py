"""Prints what TensorBoard reads from a directory of event files, as JSON."""
import json
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import metadata
from tensorboard.util import tensor_util

a = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
a.Reload()
out = {"scalars": {}, "histograms": {}, "texts": {}, "hparams": {}}
for tag in a.Tags()["scalars"]:
    out["scalars"][tag] = [[e.step, repr(e.value)] for e in a.Scalars(tag)]
for tag in a.Tags()["histograms"]:
    e = a.Histograms(tag)[-1]
    v = e.histogram_value
    out["histograms"][tag] = {"step": e.step, "num": v.num, "limits": list(v.bucket_limit), "counts": list(v.bucket)}
for tag in a.Tags()["tensors"]:
    plugin = a.SummaryMetadata(tag).plugin_data
    if plugin.plugin_name == "text":
        out["texts"][tag] = [[e.step, tensor_util.make_ndarray(e.tensor_proto)[0].decode()] for e in a.Tensors(tag)]
    elif tag == metadata.SESSION_START_INFO_TAG:
        start = metadata.parse_session_start_info_plugin_data(plugin.content)
        for k, v in start.hparams.items():
            out["hparams"][k] = getattr(v, v.WhichOneof("kind"))
    elif tag == metadata.EXPERIMENT_TAG:
        e = metadata.parse_experiment_plugin_data(plugin.content)
        out["metrics"] = [m.name.tag for m in e.metric_infos]
    elif tag == metadata.SESSION_END_INFO_TAG:
        out["status"] = metadata.parse_session_end_info_plugin_data(plugin.content).status
print(json.dumps(out))
