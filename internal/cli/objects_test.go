package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"trireme/internal/objectstore/objectstoretest"
)

// objectServers has the server of each script, by its *testscript.TestScript: scripts run in parallel.
var objectServers sync.Map

// serveObjects starts an object store for the rest of the script, with the variables that name it. Its other forms are
// objects down DIR, which copies the objects to a directory, objects up DIR PREFIX, and objects keys TEXT, which requires a
// key with the text.
func serveObjects(ts *testscript.TestScript, neg bool, args []string) {
	var srv *objectstoretest.Server
	if s, ok := objectServers.Load(ts); ok {
		srv = s.(*objectstoretest.Server)
	}
	switch {
	case len(args) == 0:
		srv = objectstoretest.Serve()
		objectServers.Store(ts, srv)
		ts.Defer(srv.Close)
		for name, value := range srv.Environment() {
			ts.Setenv(name, value)
		}
	case args[0] == "down":
		for _, key := range srv.Keys() {
			at := filepath.Join(ts.MkAbs(args[1]), key)
			ts.Check(os.MkdirAll(filepath.Dir(at), 0o755))
			ts.Check(os.WriteFile(at, srv.Get(key), 0o644))
		}
	case args[0] == "up":
		dir := ts.MkAbs(args[1])
		ts.Check(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			rel, _ := filepath.Rel(dir, path)
			srv.Set(args[2]+"/"+filepath.ToSlash(rel), b)
			return err
		}))
	case args[0] == "keys":
		if found := strings.Contains(strings.Join(srv.Keys(), "\n"), args[1]); found == neg {
			ts.Fatalf("keys: %q", srv.Keys())
		}
	}
}
