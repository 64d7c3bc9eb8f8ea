"""Decodes the requests of an OTLP exporter and prints them as JSON."""
import json
import sys

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

out = []
for path, kind in zip(sys.argv[1:], (ExportMetricsServiceRequest, ExportTraceServiceRequest)):
    m = kind()
    m.ParseFromString(open(path, "rb").read())
    out.append(MessageToDict(m))
print(json.dumps(out))
