package monitor

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"trireme/fault"
)

// Alert is an element of `logging.alerts`.
type Alert struct {
	// When is the condition: "loss is NaN", "no step for 2m", "host.disk_free < 20GB", or any metric of a
	// record against a number, with "for 20 steps" if it must hold for consecutive steps.
	When string `yaml:"when"`
	// Command is run by sh, with the alert as JSON on its standard input and in TRIREME_ALERT_* variables.
	// It is killed after 30 s. Default "".
	Command string `yaml:"command"`
	// Webhook is a URL that gets the alert as JSON by POST. Default "".
	Webhook string `yaml:"webhook"`
}

// Validate checks the condition and the address.
func (a Alert) Validate() error {
	if _, err := ParseCondition(a.When); err != nil {
		return fault.At("when", "%q: %v", a.When, err)
	}
	if a.Command == "" && a.Webhook == "" {
		return fault.At("when", "%q has neither a command nor a webhook", a.When)
	}
	if u, err := url.Parse(a.Webhook); a.Webhook != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return fault.At("webhook", "must be a URL that begins with http:// or https://")
	}
	return nil
}

// Condition is a parsed Alert.When.
type Condition struct {
	Silence time.Duration // no step for this time; 0: a condition on Metric
	Metric  string
	NaN     bool // the metric is NaN or infinite
	Op      string
	Value   float64
	Steps   int // consecutive steps for which it must hold
}

var (
	conditionNaN     = regexp.MustCompile(`^([A-Za-z0-9_./-]+) is (?i:nan)(?: for (\d+) steps?)?$`)
	conditionSilence = regexp.MustCompile(`^no step for (\S+)$`)
	conditionNumber  = regexp.MustCompile(`^([A-Za-z0-9_./-]+) *(<=|>=|<|>|==|!=) *(\S+)(?: for (\d+) steps?)?$`)
)

// ParseCondition parses a condition.
func ParseCondition(text string) (c Condition, err error) {
	text = strings.Join(strings.Fields(text), " ")
	c.Steps = 1
	steps := func(s string) error {
		if s == "" {
			return nil
		}
		c.Steps, err = strconv.Atoi(s)
		if err != nil || c.Steps < 1 {
			return fmt.Errorf("%s steps: it must be at least 1", s)
		}
		return nil
	}
	if m := conditionSilence.FindStringSubmatch(text); m != nil {
		if c.Silence, err = time.ParseDuration(m[1]); err != nil || c.Silence < time.Second {
			return c, fmt.Errorf("%s is not a time of at least 1s, such as 2m", m[1])
		}
		return c, nil
	}
	if m := conditionNaN.FindStringSubmatch(text); m != nil {
		c.Metric, c.NaN = m[1], true
		return c, steps(m[2])
	}
	m := conditionNumber.FindStringSubmatch(text)
	if m == nil {
		return c, fmt.Errorf("is no condition, such as: loss is NaN, no step for 2m, grad_norm > 10 for 20 steps")
	}
	c.Metric, c.Op = m[1], m[2]
	if c.Value, err = ParseNumber(m[3]); err != nil {
		return c, err
	}
	return c, steps(m[4])
}

// units are the suffixes of numbers.
var units = []struct {
	suffix string
	factor float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"%", 0.01},
}

// ParseNumber parses a finite number, with a unit of bytes or a percent sign.
func ParseNumber(text string) (float64, error) {
	factor, digits := 1.0, text
	for _, u := range units {
		if s, ok := strings.CutSuffix(text, u.suffix); ok {
			factor, digits = u.factor, s
			break
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%s is not a number", text)
	}
	return v * factor, nil
}

// Holds reports whether a value of the metric satisfies the condition. A value that is not finite satisfies NaN only.
func (c Condition) Holds(v float64) bool {
	switch {
	case c.NaN || v-v != 0:
		return c.NaN && v-v != 0
	case c.Op == "<":
		return v < c.Value
	case c.Op == "<=":
		return v <= c.Value
	case c.Op == ">":
		return v > c.Value
	case c.Op == ">=":
		return v >= c.Value
	case c.Op == "==":
		return v == c.Value
	}
	return v != c.Value
}
