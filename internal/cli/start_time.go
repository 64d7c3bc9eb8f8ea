package cli

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// beganVar hands workers the moment at which the user started their launcher, in
// nanoseconds of Unix time.
const startTimeVar = "TRIREME_BEGAN_NS"

// began is when the user started this job: the start of the process that started this one as
// a worker, or of this process.
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

// beganEnv is the environment of workers, with when this process began.
func startTimeEnv() ([]string, error) {
	t, err := startTime()
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), startTimeVar+"="+strconv.FormatInt(t.UnixNano(), 10)), nil
}
