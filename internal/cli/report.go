package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"trireme/collective"
	"trireme/device"
	"trireme/fault"
	"trireme/internal/conf"
	"trireme/launch"
	"trireme/rendezvous"
	"trireme/tensor"
	"trireme/train"
)

// report prints an error (what is wrong, where, why, what to try) and returns the exit code. No
// other function prints errors.
func report(w io.Writer, err error) int {
	if err == nil {
		return CodeDone
	}
	code := codeOf(err)
	var exit *Exit
	if errors.As(err, &exit) && exit.Err == nil {
		return code
	}
	var configuration conf.Errors
	var problem *Problem
	var path *fs.PathError
	var failure *launch.Failure
	switch {
	case errors.As(err, &failure):
		failure.Report(w)
	case errors.As(err, &configuration):
		fmt.Fprintln(w, textOf(configuration))
		if i := slices.IndexFunc(configuration, func(p conf.Problem) bool { return p.Unknown }); i >= 0 {
			group, _, _ := strings.Cut(configuration[i].Group, "[") // elements of a list have no reference entry
			fmt.Fprintln(w, strings.TrimRight("try: trireme config keys "+group, " "))
		}
	case errors.As(err, &problem):
		fmt.Fprintln(w, problem.Text)
		for _, line := range []struct{ label, text string }{{"", problem.Where}, {"why: ", problem.Why}, {"try: ", problem.Try}} {
			if line.text != "" {
				fmt.Fprintf(w, "%s%s\n", line.label, line.text)
			}
		}
	case errors.As(err, &path):
		// "x.txt: no such file" instead of "open x.txt: no such file".
		text := strings.Replace(textOf(err), path.Error(), fmt.Sprintf("%s: %v", path.Path, path.Err), 1)
		fmt.Fprintln(w, oneLine(text))
	default:
		fmt.Fprintln(w, oneLine(textOf(err))+remedyForLost(err)) // the last line names the rank
	}
	if try := remedy(err); try != "" {
		fmt.Fprintf(w, "try: %s\n", try)
	}
	return code
}

// oneLine replaces the line breaks of errors.Join. A suggestion in the error of another process stays on its own line.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", "; "), "; try: ", "\ntry: ")
}

// textOf formats an error, with settings as flags.
func textOf(err error) string {
	return fault.Text(err, asFlag)
}

// asFlag formats a setting as a flag.
func asFlag(s fault.Setting) string {
	switch set := s.String(); {
	case s.Key == fault.Ranks:
		return "--nproc " + s.Value
	case !strings.Contains(s.Key, "."): // every top-level key has a flag
		return "--" + s.Key + " " + s.Value
	case strings.Contains(set, "*"):
		return "--set '" + set + "'"
	default:
		return "--set " + set
	}
}

// remedy returns a suggestion for an error of the operating system. It is empty if the error has
// its own or none is known.
func remedy(err error) string {
	if fault.HasTry(err) {
		return ""
	}
	var path *fs.PathError
	if errors.As(err, &path) && path.Path == os.Stdout.Name() {
		return "redirect standard output elsewhere"
	}
	for _, r := range []struct {
		err error
		try string
	}{
		{syscall.ENOSPC, "free space on that disk, or use another: --output_dir, data.cache_dir, TMPDIR"},
		{syscall.EDQUOT, "free space within your quota, or use another disk: --output_dir, data.cache_dir, TMPDIR"},
		{syscall.EROFS, "another directory: --output_dir, data.cache_dir, TMPDIR"},
		{syscall.EFBIG, "ulimit -f unlimited"},
		{syscall.EMFILE, "ulimit -n 4096"},
		{syscall.EISDIR, "another path, or remove that directory"},
		{fs.ErrExist, "another path, or remove that directory"},
		{syscall.ENOTDIR, "another directory, or remove that file"},
		{fs.ErrPermission, "another path, or run as its owner"},
	} {
		if errors.Is(err, r.err) {
			return r.try
		}
	}
	return ""
}

// remedyForLost returns a suggestion for a lost, hung or stopped rank, if that is known.
func remedyForLost(err error) string {
	var other blameError
	if !errors.As(err, &other) {
		return ""
	}
	if _, known := other.Culprit(); !known {
		return ""
	}
	switch {
	case errors.Is(err, collective.ErrTimeout):
		return ". try: a larger parallel.timeout_seconds if that rank is only slow, or all ranks again (train: with --resume auto)"
	case errors.Is(err, collective.ErrPeerLost), errors.Is(err, rendezvous.ErrLost):
		return ". try: all ranks again (train: with --resume auto)"
	}
	return ""
}

func codeOf(err error) int {
	var exit *Exit
	var configuration conf.Errors
	var input *train.InputError
	var unfit *device.UnfitError
	var space *tensor.AddressSpaceError
	var other *rendezvous.Failure
	switch {
	case err == nil:
		return CodeDone
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &configuration):
		return CodeUsage
	case errors.As(err, &other) && other.Code == CodeUsage: // a retry would fail alike
		return CodeUsage
	case errors.Is(err, collective.ErrPeerLost), errors.Is(err, collective.ErrTimeout), errors.Is(err, collective.ErrAborted), errors.Is(err, rendezvous.ErrLost), errors.Is(err, rendezvous.ErrTimeout):
		// The launcher ignores ranks with this code when it looks for the root cause.
		return CodePeerLost
	case errors.As(err, &input), errors.As(err, &unfit), errors.Is(err, rendezvous.ErrRefused):
		return CodeUsage
	case errors.As(err, &space):
		return CodeNo
	}
	return CodeFailed
}
