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

// pipedVar hands this program's workers the text of a configuration that came through a pipe,
// which can be read once.
const pipedVar = "TRIREME_CONFIG_TEXT"

// maxPiped is the largest configuration that a variable can hold.
const maxPiped = 96 << 10

// stdinName is what - stands for, where a file's name is wanted.
const stdinName = "/dev/stdin"

// readConfig reads the file of --config. What comes through a pipe or a descriptor is piped: the text
// for workers.
// It waits for whoever writes into the pipe, says so after a second, and ends with ctx.
func readConfig(ctx context.Context, name string, stderr io.Writer) (text, piped string, err error) {
	if text, ok := os.LookupEnv(pipedVar); ok {
		return text, text, nil
	}
	// Workers have neither this process's standard input nor its descriptors, files or not.
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
	go func() { // which stays behind where nobody ever writes
		text, err := conf.Read(name)
		read <- result{text, err}
	}()
	waiting := time.NewTimer(time.Second)
	defer waiting.Stop()
	for {
		select {
		case r := <-read:
			if r.err == nil && len(r.text) > maxPiped {
				r.err = usage(fmt.Sprintf("--config: %d bytes came through %s: a pipe may give %d at most", len(r.text), name, maxPiped), "write it into a file")
			}
			return r.text, r.text, r.err
		case <-waiting.C:
			fmt.Fprintf(stderr, "waiting for the configuration: nobody has written all of it to %s\n", name)
		case <-ctx.Done():
			return "", "", context.Cause(ctx)
		}
	}
}
