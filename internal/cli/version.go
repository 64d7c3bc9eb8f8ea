package cli

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

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
	Kernels  string `json:"kernels"` // the variant for this processor
	CPUs     int    `json:"cpus"`
}

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "print the version, platform and kernel variant",
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

// print writes one fact per line.
func (v versionInfo) print(w io.Writer) error {
	commit := v.Revision[:min(12, len(v.Revision))]
	switch {
	case commit == "":
		commit = "unknown"
	case v.Modified:
		commit += " (modified)"
	}
	_, err := fmt.Fprintf(w, "trireme %s\ncommit: %s\ngo: %s\nplatform: %s, %d processors\nkernels: %s\n", v.Version, commit, v.Go, v.Platform, v.CPUs, v.Kernels)
	return err
}

func readVersion() versionInfo {
	v := versionInfo{
		Schema: "trireme.version/1", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Kernels: impl.Best().String(), CPUs: runtime.NumCPU(),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	v.Version, v.Revision, v.Modified = Version(info), setting(info, "vcs.revision"), setting(info, "vcs.modified") == "true"
	return v
}

// Next is the release that untagged builds lead to.
const Next = "v0.9.0"

// Version returns the semantic version of a build. A build of a tagged commit without changes has
// the tag's version. Any other build is a development version of Next, such as
// v0.9.0-dev+867e90889d52, or v0.9.0-dev+867e90889d52.dirty if files differ from the commit.
func Version(b *debug.BuildInfo) string {
	v := b.Main.Version
	pseudo := pseudoVersion.FindStringSubmatch(v)
	if v != "" && v != "(devel)" && pseudo == nil && !strings.Contains(v, "+") {
		return v
	}
	commit := setting(b, "vcs.revision")
	if commit == "" && pseudo != nil {
		commit = pseudo[1] // go install of a commit
	}
	if commit == "" {
		return Next + "-dev"
	}
	dev := Next + "-dev+" + commit[:min(12, len(commit))]
	if setting(b, "vcs.modified") == "true" {
		dev += ".dirty"
	}
	return dev
}

// pseudoVersion matches Go's version of an untagged commit, v0.0.0-20060102150405-abcdefabcdef.
var pseudoVersion = regexp.MustCompile(`[-.][0-9]{14}-([0-9a-f]{12})(\+|$)`)

// setting returns a build setting, "" if the build has none of that name.
func setting(b *debug.BuildInfo, key string) string {
	for _, s := range b.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
