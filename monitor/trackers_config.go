package monitor

import (
	"net"
	"net/url"

	"trireme/fault"
)

// WandB is the node `logging.wandb`: a run directory of Weights & Biases, which `wandb sync` uploads.
// Nothing is sent.
type WandB struct {
	// Mode writes wandb/offline-run-... in the output directory. One of off | offline. Default off.
	Mode WandBMode `yaml:"mode"`
	// Project is the project that wandb sync uploads to. Empty: trireme. Default "".
	Project string `yaml:"project"`
	// Entity is the user or team. Empty: the default of wandb sync. Default "".
	Entity string `yaml:"entity"`
	// Name is the name shown. Empty: the name of the output directory. Default "".
	Name string `yaml:"name"`
	// Group groups runs. Default "".
	Group string `yaml:"group"`
	// Tags are the run's tags. Default [].
	Tags []string `yaml:"tags"`
}

// WandBMode is whether a W&B run directory is written.
type WandBMode string

// Values of WandB.Mode.
const (
	WandBOff     WandBMode = "off"
	WandBOffline WandBMode = "offline"
)

// Choices returns the allowed values.
func (WandBMode) Choices() []string { return []string{string(WandBOff), string(WandBOffline)} }

// MLflow is the node `logging.mlflow`: a run on an MLflow server. Credentials are in the environment:
// MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
type MLflow struct {
	// URL is the server's address, such as http://127.0.0.1:5000. Empty sends nothing. Default "".
	URL string `yaml:"url"`
	// Experiment is the experiment's name. It is created if it does not exist. Empty: trireme.
	// Default "".
	Experiment string `yaml:"experiment"`
}

// Validate checks the address.
func (c MLflow) Validate() error { return checkURL(c.URL, "MLFLOW_TRACKING_USERNAME") }

// Trackio is the node `logging.trackio`: a run on a trackio server. Its write token is in the
// environment: TRACKIO_WRITE_TOKEN.
type Trackio struct {
	// URL is the server's address without its write token, such as http://127.0.0.1:7860. Empty sends
	// nothing. Default "".
	URL string `yaml:"url"`
	// Project is the project's name. Empty: trireme. Default "".
	Project string `yaml:"project"`
}

// Validate checks the address.
func (c Trackio) Validate() error { return checkURL(c.URL, "TRACKIO_WRITE_TOKEN") }

// Prometheus is the node `logging.prometheus`: metrics for Prometheus, in OpenMetrics, at /metrics.
type Prometheus struct {
	// Addr is the address that rank 0 listens on, HOST:PORT or :PORT. Without a host it is loopback;
	// 0.0.0.0 is all interfaces; port 0 chooses one. Empty does not listen. Default "".
	Addr string `yaml:"addr"`
}

// Validate checks the address.
func (c Prometheus) Validate() error {
	if c.Addr == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		return fault.Try(fault.At("addr", "%q is not an address", c.Addr), "%s", fault.Set("logging.prometheus.addr", "127.0.0.1:9400"))
	}
	return nil
}

// OTLP is the node `logging.otlp`: metrics to an OpenTelemetry collector, over HTTP. Headers with
// credentials are in the environment: OTEL_EXPORTER_OTLP_HEADERS, as NAME=VALUE,NAME=VALUE.
type OTLP struct {
	// URL is the collector's address, such as http://127.0.0.1:4318. Empty sends nothing. Default "".
	URL string `yaml:"url"`
	// Traces also sends a span for each step. Default false.
	Traces bool `yaml:"traces"`
}

// Validate checks the address.
func (c OTLP) Validate() error { return checkURL(c.URL, "OTEL_EXPORTER_OTLP_HEADERS") }

// checkURL checks the key url. An address with credentials would be in config.yaml, so it is refused.
func checkURL(text, variable string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fault.At("url", "is not an address of the form http://HOST:PORT")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fault.Try(fault.At("url", "has a password or a query, which config.yaml would show"), "the address alone, and the environment variable %s", variable)
	}
	return nil
}
