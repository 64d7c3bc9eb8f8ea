# Writes the .parquet files beside it (pyarrow 26.0.1): the same four rows with two row groups,
# with version 2 pages and zstd, and with the older names of lists and gzip.
import pyarrow as pa, pyarrow.parquet as pq
chat = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
t = pa.table({
 "text": pa.array(["one", None, "thrée", ""]),
 "label": pa.array([0, 1, None, -3], pa.int64()),
 "small": pa.array([1, 2, 3, 4], pa.int8()),
 "big": pa.array([2**63, 1, 2, 3], pa.uint64()),
 "score": pa.array([0.5, None, 1.5, 2.0], pa.float32()),
 "ok": pa.array([True, False, None, True]),
 "messages": pa.array([[{"role":"user","content":"hi"},{"role":"assistant","content":None}], [], None, [None, {"role":"user","content":"x"}]], chat),
 "input_ids": pa.array([[1,2,3],[],None,[4]], pa.list_(pa.int32())),
 "nested": pa.array([[[1],[]],[None,[2,None]],None,[]], pa.list_(pa.list_(pa.int64()))),
 "opts": pa.array([{"a": {"b": "c"}}, {"a": None}, None, {"a": {"b": None}}], pa.struct([("a", pa.struct([("b", pa.string())]))])),
 "map": pa.array([[("k",1)],[],None,[("a",2),("b",None)]], pa.map_(pa.string(), pa.int32())),
 "raw": pa.array([b"\xff\x00", b"abc", None, b""], pa.binary()),
 "large": pa.array(["a","b","c","d"], pa.large_string()),
 "cat": pa.array(["x","y","x",None]).dictionary_encode(),
 "null": pa.nulls(4),
})
pq.write_table(t, "groups.parquet", row_group_size=3)
pq.write_table(t, "zstd2.parquet", compression="zstd", data_page_version="2.0", version="2.6", use_dictionary=False)
pq.write_table(t, "legacy.parquet", use_compliant_nested_type=False, version="1.0", compression="gzip")

# A shard that got no rows: one row group without a page. And pages with checksums.
pq.write_table(pa.table({"text": pa.array([], pa.string()), "n": pa.array([], pa.int64())}), "empty.parquet")
pq.write_table(pa.table({"text": ["one", "two", "three"]}), "checksums.parquet", write_page_checksum=True, compression=None, use_dictionary=False)
