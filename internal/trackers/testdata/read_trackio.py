"""Prints the runs of a trackio project in TRACKIO_DIR, as JSON."""
import json
import sys

import trackio
from trackio.sqlite_storage import SQLiteStorage

out = []
for r in trackio.Api().runs(sys.argv[1]):
    logs = SQLiteStorage.get_logs(sys.argv[1], r.name, run_id=r.id)
    out.append({"name": r.name, "id": r.id, "config": r.config, "logs": [{k: v if isinstance(v, dict) else repr(v) for k, v in log.items()} for log in logs]})
print(json.dumps(out))
