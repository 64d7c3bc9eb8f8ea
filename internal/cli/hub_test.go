package cli_test

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"trireme/hub/hubtest"
)

// serveHub starts a hub for the commands of a script, with the repositories in the folders
// models/OWNER/NAME and datasets/OWNER/NAME of DIR:
//
//	hub serve DIR          sets COMMIT_NAME to the commit of each
//	hub serve DIR TOKEN    requires the token
//	hub slow DIR           downloads of large files hang until the script ends
//	hub down               closes the server
func serveHub(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case neg || len(args) < 1:
		ts.Fatalf("usage: hub serve DIR [TOKEN] | hub slow DIR | hub down")
	case args[0] == "down":
		ts.Setenv("HF_ENDPOINT", "http://127.0.0.1:1")
		return
	}
	s := hubtest.New()
	ts.Defer(s.Close)
	root := ts.MkAbs(args[1])
	for _, kind := range []string{"model", "dataset"} {
		repos, err := filepath.Glob(filepath.Join(root, kind+"s", "*", "*"))
		ts.Check(err)
		for _, dir := range repos {
			id := filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
			files := map[string]string{}
			ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				b, err := os.ReadFile(path)
				name, _ := filepath.Rel(dir, path)
				files[filepath.ToSlash(name)] = string(b)
				return err
			}))
			ts.Setenv("COMMIT_"+filepath.Base(dir), s.Commit(kind, id, files))
			if len(args) > 2 {
				s.Protect(kind, id, args[2], true)
			}
		}
	}
	if args[0] == "slow" {
		release := make(chan struct{})
		ts.Defer(func() { close(release) })
		s.Inject(func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
			if !cdn {
				return false
			}
			w.(http.Flusher).Flush()
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return true
		})
	}
	ts.Setenv("HF_ENDPOINT", s.URL)
	ts.Setenv("HF_HUB_OFFLINE", "")
}

// waitFor PATTERN waits for such a file.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfor PATTERN")
	}
	for range 1000 {
		if found, err := filepath.Glob(ts.MkAbs(args[0])); err != nil || len(found) > 0 {
			ts.Check(err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("no %s comes", args[0])
}
