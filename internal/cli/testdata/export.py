"""Reads a Parquet export with pyarrow, and with DuckDB if that is installed, and prints what both find as JSON."""
import json
import sys

import pyarrow.parquet as pq

path = sys.argv[1]
table = pq.read_table(path)


def cell(v):
    return "NaN" if isinstance(v, float) and v != v else v


def rows(names, tuples):
    return [dict(zip(names, map(cell, r))) for r in tuples]


names = table.column_names
out = {
    "types": {f.name: str(f.type) for f in table.schema},
    "pyarrow": rows(names, zip(*(c.to_pylist() for c in table.columns))),
    "duckdb": None,
}
try:
    import duckdb
except ImportError:
    pass
else:
    found = duckdb.sql("select * from read_parquet($p)", params={"p": path})
    out["duckdb"] = rows(found.columns, found.fetchall())
print(json.dumps(out))
