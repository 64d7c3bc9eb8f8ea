package cli

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"trireme/internal/impl"
)

type versionInfo struct {
	Schema   string `json:"schema"`
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Kernels  string `json:"kernels"` // the variant that this processor gets
	CPUs     int    `json:"cpus"`
}

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "print the version, the platform and the kernels that this processor gets",
		Example: `  trireme version
  trireme version --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v := readVersion()
			if asJSON {
				return writeJSON(c.OutOrStdout(), v)
			}
			return v.print(c.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// print says it for a reader, one fact a line.
func (v versionInfo) print(w io.Writer) error {
	version, commit := v.Version, v.commit()
	if version == "(devel)" || pseudo(version) { // no release: it holds the time and the hash of the commit
		version = "(development)"
	}
	if commit == "" {
		commit = "unknown"
	}
	_, err := fmt.Fprintf(w, "trireme %s\ncommit: %s\ngo: %s\nplatform: %s, %d processors\nkernels: %s\n", version, commit, v.Go, v.Platform, v.CPUs, v.Kernels)
	return err
}

func readVersion() versionInfo {
	v := versionInfo{
		Schema: "trireme.version/1", Version: "(devel)", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Kernels: impl.Best().String(), CPUs: runtime.NumCPU(),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// describe is the version in a line, for run.json. A pseudo-version holds the commit already.
func (v versionInfo) describe() string {
	if c := v.commit(); c != "" && !pseudo(v.Version) {
		return v.Version + " " + c
	}
	return v.Version
}

// commit is the beginning of the revision's hash, and whether files differed from it; "" where it
// is not known.
func (v versionInfo) commit() string {
	s := v.Revision[:min(12, len(v.Revision))]
	if s != "" && v.Modified {
		s += " (modified)"
	}
	return s
}

// pseudo says whether a version is of no release: v0.0.0-20060102150405-abcdefabcdef.
func pseudo(version string) bool { return pseudoVersion.MatchString(version) }

var pseudoVersion = regexp.MustCompile(`-(0\.)?[0-9]{14}-[0-9a-f]{12}(\+|$)`)
