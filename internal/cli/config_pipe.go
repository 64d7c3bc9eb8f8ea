package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"trireme/internal/conf"
)

// pipedVar passes a configuration read from a pipe to workers.
const pipedVar = "TRIREME_CONFIG_TEXT"

// maxPiped is the longest configuration that fits an environment variable, in bytes.
const maxPiped = 96 << 10

// stdinName is the file name for -.
const stdinName = "/dev/stdin"

// readConfig reads the file of --config. Text from a pipe or a descriptor is also returned as piped,
// for workers. It waits for the writer of a pipe until ctx ends, with a note after a second.
func readConfig(ctx context.Context, name string, stderr io.Writer) (text, piped string, err error) {
	if text, ok := os.LookupEnv(pipedVar); ok {
		return text, text, nil
	}
	// Workers inherit neither standard input nor other descriptors.
	descriptor := strings.HasPrefix(name, "/dev/") || strings.HasPrefix(name, "/proc/")
	if st, err := os.Stat(name); err != nil || st.IsDir() || st.Mode().IsRegular() && !descriptor {
		text, err = conf.Read(name)
		return text, "", err
	}
	type result struct {
		text string
		err  error
	}
	read := make(chan result, 1)
	go func() { // leaks if nobody ever writes
		text, err := conf.Read(name)
		read <- result{text, err}
	}()
	waiting := time.NewTimer(time.Second)
	defer waiting.Stop()
	for {
		select {
		case r := <-read:
			if r.err == nil && len(r.text) > maxPiped {
				r.err = usage(fmt.Sprintf("--config: %d bytes from %s: a pipe is limited to %d", len(r.text), name, maxPiped), "write it to a file")
			}
			return r.text, r.text, r.err
		case <-waiting.C:
			fmt.Fprintf(stderr, "waiting for the configuration on %s\n", name)
		case <-ctx.Done():
			return "", "", context.Cause(ctx)
		}
	}
}
