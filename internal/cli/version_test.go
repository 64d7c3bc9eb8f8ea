package cli

import (
	"runtime/debug"
	"testing"
)

// TestVersion covers every kind of build: tagged, modified, untagged, without Git, by go install.
func TestVersion(t *testing.T) {
	const hash = "867e90889d5231f0aa1b2c3d4e5f60718293a4b5"
	for _, c := range []struct{ module, revision, modified, want string }{
		{"v0.9.0", hash, "false", "v0.9.0"},
		{"v0.9.0-rc.1", hash, "false", "v0.9.0-rc.1"},
		{"v1.2.3", "", "", "v1.2.3"},
		{"v0.9.0+dirty", hash, "true", Next + "-dev+867e90889d52.dirty"},
		{"v0.0.0-20261122130000-867e90889d52", hash, "false", Next + "-dev+867e90889d52"},
		{"v0.9.1-0.20261122130000-867e90889d52+dirty", hash, "true", Next + "-dev+867e90889d52.dirty"},
		{"v0.9.0-rc.1.0.20261122130000-867e90889d52", "", "", Next + "-dev+867e90889d52"},
		{"(devel)", hash, "false", Next + "-dev+867e90889d52"},
		{"(devel)", "", "", Next + "-dev"},
		{"", "", "", Next + "-dev"},
	} {
		b := &debug.BuildInfo{Main: debug.Module{Version: c.module}}
		for _, s := range []debug.BuildSetting{{Key: "vcs.revision", Value: c.revision}, {Key: "vcs.modified", Value: c.modified}} {
			if s.Value != "" {
				b.Settings = append(b.Settings, s)
			}
		}
		if got := Version(b); got != c.want {
			t.Errorf("module version %q, revision %.7s, modified %q: %s, want %s", c.module, c.revision, c.modified, got, c.want)
		}
	}
}
