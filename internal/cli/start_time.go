package cli

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// startTimeVar passes the start of the launcher to workers, in nanoseconds of Unix time.
const startTimeVar = "TRIREME_BEGAN_NS"

// startTime returns the start of the launcher, or of this process if it is no worker.
func startTime() (time.Time, error) {
	v, ok := os.LookupEnv(startTimeVar)
	if !ok {
		return processStart()
	}
	ns, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s=%q is not a number", startTimeVar, v)
	}
	return time.Unix(0, ns), nil
}

// startTimeEnv returns the environment of workers with the start time.
func startTimeEnv() ([]string, error) {
	t, err := startTime()
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), startTimeVar+"="+strconv.FormatInt(t.UnixNano(), 10)), nil
}
