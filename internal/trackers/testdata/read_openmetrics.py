"""Parses the two text formats of Prometheus and prints the samples of the first, as JSON."""
import json
import sys

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

families = list(openmetrics.text_string_to_metric_families(open(sys.argv[1], newline="").read()))
older = list(parser.text_string_to_metric_families(open(sys.argv[2], newline="").read()))


def samples(all):
    return sorted((s.name, sorted(s.labels.items()), repr(s.value)) for f in all for s in f.samples)


assert samples(families) == samples(older), "the formats differ"
print(json.dumps([[s.name, s.labels, repr(s.value), f.type] for f in families for s in f.samples]))
