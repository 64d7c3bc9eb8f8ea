"""Prints the runs of an MLflow server, as JSON."""
import json
import sys

from mlflow.tracking import MlflowClient

c = MlflowClient(sys.argv[1])
e = c.get_experiment_by_name(sys.argv[2])
out = []
for r in c.search_runs([e.experiment_id], order_by=["attributes.start_time"]):
    out.append({
        "name": r.info.run_name, "status": r.info.status, "tags": r.data.tags, "params": r.data.params,
        "metrics": {k: [[m.step, repr(m.value)] for m in c.get_metric_history(r.info.run_id, k)] for k in r.data.metrics},
    })
print(json.dumps(out))
