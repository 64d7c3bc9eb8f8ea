// Package alert applies the rules of logging.alerts to a run and calls commands and webhooks. A rule fires once
// per incident and again when the incident is over.
//
// Open is a record sink for a running job. It works in the background, drops records rather than wait, limits the
// time of every call, and notes the first error of each rule. Check applies the rules to a run's directory once.
package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"trireme/internal/runlog"
	"trireme/monitor"
)

// Limits of the background work.
const (
	queued       = 256
	callTimeout  = 30 * time.Second
	closeTimeout = 5 * time.Second
	tick         = time.Second
)

// Run is the run that rules watch.
type Run struct {
	ID, Dir string
	Environ []string                  // of commands
	Print   func(string)              // a line for the user; nil: none
	Event   func(monitor.Event) error // records an alert; nil: none
}

// Message is the JSON that commands and webhooks get.
type Message struct {
	Rule  string    `json:"rule"`
	State string    `json:"state"` // firing | over | test
	Text  string    `json:"text"`
	Step  int64     `json:"step"`
	Value *float64  `json:"value"` // of the metric; null: not finite, or none
	Run   string    `json:"run"`
	Dir   string    `json:"dir"`
	Time  time.Time `json:"time"`
}

// rule is the state of one rule.
type rule struct {
	monitor.Alert
	monitor.Condition
	count  int // consecutive steps for which it holds
	firing bool
	failed bool
}

// step applies a value of the metric and reports whether the rule fires or its incident ends.
func (r *rule) step(v float64) (changed bool) {
	if !r.Holds(v) {
		r.count = 0
		changed, r.firing = r.firing, false
		return changed
	}
	r.count++
	if r.firing || r.count < r.Steps {
		return false
	}
	r.firing = true
	return true
}

type record struct {
	step   int64
	values map[string]float64
}

// sink watches a running job.
type sink struct {
	run   Run
	rules []*rule
	in    chan record
	calls chan func(context.Context)
	stop  context.CancelFunc
	done  sync.WaitGroup
}

var _ monitor.Sink = (*sink)(nil)

// Open starts to watch. The rules are valid.
func Open(alerts []monitor.Alert, run Run) monitor.Sink {
	s := &sink{run: run, in: make(chan record, queued), calls: make(chan func(context.Context), queued)}
	for _, a := range alerts {
		c, _ := monitor.ParseCondition(a.When) // validated
		s.rules = append(s.rules, &rule{Alert: a, Condition: c})
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(s.watch)
	s.done.Go(func() {
		for call := range s.calls {
			call(ctx)
		}
	})
	return s
}

// Record queues a record, or drops it if the queue is full.
func (s *sink) Record(r monitor.Record) error { return s.add(r.Step, r.AppendJSON(nil)) }

// Evaluate queues an evaluation.
func (s *sink) Evaluate(e monitor.Evaluation) error { return s.add(e.Step, e.AppendJSON(nil)) }

func (s *sink) add(step int64, line []byte) error {
	values, err := runlog.Values(line)
	if err != nil {
		return err
	}
	select {
	case s.in <- record{step, values}:
	default:
	}
	return nil
}

// Note does nothing.
func (s *sink) Note(string) error { return nil }

// Close waits a few seconds for calls in progress.
func (s *sink) Close() error {
	timeout := time.AfterFunc(closeTimeout, s.stop)
	defer timeout.Stop()
	close(s.in)
	s.done.Wait()
	s.stop()
	return nil
}

// watch applies the rules until the sink is closed.
func (s *sink) watch() {
	defer close(s.calls)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last, step := time.Now(), int64(0)
	for {
		select {
		case r, open := <-s.in:
			if !open {
				return
			}
			if _, ok := r.values["eval_loss"]; !ok {
				last, step = time.Now(), r.step
			}
			for _, rule := range s.rules {
				switch v, ok := r.values[rule.Metric]; {
				case rule.Silence > 0:
					if rule.firing {
						rule.firing = false
						s.send(rule, message(rule, r.step, nil))
					}
				case ok && rule.step(v):
					s.send(rule, message(rule, r.step, &v))
				}
			}
		case <-ticker.C:
			for _, rule := range s.rules {
				if rule.Silence > 0 && !rule.firing && time.Since(last) > rule.Silence {
					rule.firing = true
					s.send(rule, message(rule, step, nil))
				}
			}
		}
	}
}

// message describes a change of a rule.
func message(r *rule, step int64, v *float64) Message {
	m := Message{Rule: r.When, State: "firing", Step: step}
	if !r.firing {
		m.State = "over"
	}
	m.Text = fmt.Sprintf("alert: %s", r.When)
	if m.State == "over" {
		m.Text = fmt.Sprintf("alert over: %s", r.When)
	}
	if v != nil {
		m.Text += fmt.Sprintf(" (%.6g)", *v)
		if *v-*v == 0 {
			m.Value = v
		}
	}
	if step > 0 {
		m.Text += fmt.Sprintf(" at step %d", step)
	}
	return m
}

// send queues the calls of a message, or drops them if too many wait.
func (s *sink) send(r *rule, m Message) {
	m.Run, m.Dir, m.Time = s.run.ID, s.run.Dir, time.Now().UTC()
	select {
	case s.calls <- func(ctx context.Context) { s.call(ctx, r, m) }:
	default:
	}
}

func (s *sink) call(ctx context.Context, r *rule, m Message) {
	if s.run.Print != nil {
		s.run.Print(m.Text)
	}
	var errs []error
	if s.run.Event != nil {
		errs = append(errs, s.run.Event(monitor.Event{Time: m.Time, Step: m.Step, Kind: monitor.EventAlert, Text: m.Text, Rule: m.Rule, Over: m.State == "over", Run: m.Run}))
	}
	errs = append(errs, Send(ctx, r.Alert, m, s.run.Environ))
	if err := errors.Join(errs...); err != nil && !r.failed && s.run.Print != nil {
		r.failed = true
		s.run.Print(err.Error())
	}
}

// Send runs the command and calls the webhook of a rule, each for up to 30 s.
func Send(ctx context.Context, a monitor.Alert, m Message, environ []string) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	var errs []error
	if a.Command != "" {
		errs = append(errs, command(ctx, a.Command, m, b, environ))
	}
	if a.Webhook != "" {
		errs = append(errs, post(ctx, a.Webhook, b))
	}
	return errors.Join(errs...)
}

// command runs a command in a process group of its own, which is killed at the end of ctx.
func command(ctx context.Context, text string, m Message, b []byte, environ []string) error {
	c := exec.CommandContext(ctx, "sh", "-c", text)
	c.Stdin = bytes.NewReader(b)
	c.Env = append(environ[:len(environ):len(environ)], "TRIREME_ALERT_RULE="+m.Rule, "TRIREME_ALERT_STATE="+m.State, "TRIREME_ALERT_TEXT="+m.Text,
		"TRIREME_ALERT_STEP="+strconv.FormatInt(m.Step, 10), "TRIREME_ALERT_DIR="+m.Dir)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	if out, err := c.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it did not end in %v", callTimeout)
		}
		return fmt.Errorf("alert: command %q: %w: %s", text, err, lastLine(out))
	}
	return nil
}

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out[max(0, len(out)-500):]))
	return monitor.EscapeControl(text[strings.LastIndexByte(text, '\n')+1:])
}

func post(ctx context.Context, to string, b []byte) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("alert: webhook: %w", err)
	}
	q.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	a, err := client.Do(q)
	if err != nil {
		return fmt.Errorf("alert: webhook: %w", err)
	}
	defer a.Body.Close()
	io.Copy(io.Discard, io.LimitReader(a.Body, 1<<16)) // its content has no meaning
	if a.StatusCode >= 300 {
		return fmt.Errorf("alert: webhook %s: %s", q.URL.Redacted(), a.Status)
	}
	return nil
}
