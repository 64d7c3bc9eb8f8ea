package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"trireme/internal/runlog"
	"trireme/internal/view"
	"trireme/monitor"
)

// recordsVar is the descriptor of rank 0's pipe of records to the launcher.
const recordsVar = "TRIREME_RECORDS_FD"

// screen shows a run's records, as a live view on a terminal and as lines elsewhere, and other output
// of the run.
type screen struct {
	io.Writer // other output
	sink      monitor.Sink
	r, w      *os.File
	done      sync.WaitGroup
	stop      context.CancelFunc // of judge; nil: no view
}

func openScreen(c monitor.Config, stderr io.Writer) *screen {
	s := &screen{Writer: stderr}
	f, isFile := monitor.UnderlyingFile(stderr)
	if c.View == monitor.ViewAuto && isFile {
		if t, ok := view.OpenTerminal(f, os.LookupEnv); ok {
			v := view.NewView(f, t)
			s.Writer, s.sink = v, v
		}
	}
	if s.sink == nil {
		s.sink = monitor.Every(c.LogEveryNSteps, monitor.NewLine(stderr))
	}
	return s
}

// judge shows in a live view what the run in dir has written besides its records, and what limits it, until Close.
func (s *screen) judge(dir string) {
	v, ok := s.sink.(*view.View)
	if !ok {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(func() {
		for wait := judgeEvery; sleep(ctx, wait); {
			log, err := runlog.OpenWith(ctx, dir, runlog.Options{})
			if err != nil {
				continue // no records yet
			}
			w := &watched{log}
			w.judge(ctx, func(f func(*view.State)) { v.Update(f) })
			log.Close()
		}
	})
}

// files returns the pipe for rank 0 in a worker process. The screen shows its records until Close.
func (s *screen) files() (map[string]*os.File, error) {
	var err error
	if s.r, s.w, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("creating a pipe for records: %w", err)
	}
	s.done.Go(s.follow)
	return map[string]*os.File{recordsVar: s.w}, nil
}

func (s *screen) follow() {
	if err := monitor.CopyJSONL(s.r, s.sink); err != nil {
		fmt.Fprintln(s, err) // a terminal that is gone does not stop a run
	}
}

// Close shows the remaining records.
func (s *screen) Close() error {
	var errs []error
	if s.stop != nil {
		s.stop()
	}
	if s.w != nil {
		errs = append(errs, s.w.Close())
	}
	s.done.Wait()
	if s.r != nil {
		errs = append(errs, s.r.Close())
	}
	return errors.Join(append(errs, s.sink.Close())...)
}

// recordPipe is the record sink of rank 0 in a worker process: records go to the pipe, notes to stderr,
// and the launcher shows both.
type recordPipe struct {
	*monitor.JSONL
	stderr io.Writer
}

func (h recordPipe) Note(text string) error {
	_, err := fmt.Fprintln(h.stderr, text)
	return err
}

func openRecordPipe(stderr io.Writer) (monitor.Sink, error) {
	v := os.Getenv(recordsVar)
	fd, err := strconv.Atoi(v)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%q is not a descriptor", recordsVar, v)
	}
	return recordPipe{monitor.NewJSONL(os.NewFile(uintptr(fd), "records")), stderr}, nil
}
