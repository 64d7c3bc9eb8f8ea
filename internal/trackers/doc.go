// Package trackers sends a run's records to other people's tools: W&B run directories, MLflow, trackio,
// Prometheus and OpenTelemetry.
//
// No tracker can slow or stop a run. Each has a queue (queue.go), which a goroutine sends from: a full
// queue drops events and counts them, a request has a time limit, the first error and the end of an outage
// are noted, and Close gives up after a limit. Open starts the trackers of a configuration:
//
//	sink, err := trackers.Open(cfg.Logging, trackers.Run{ID: id, Name: name, ...})
//
// Keys and passwords come from the environment only and are in no file and no message.
package trackers
