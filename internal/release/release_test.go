package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/spf13/cobra"

	"trireme/internal/cli"
)

const root = "../.."

// TestReproducible builds the release from copies of the tree in two directories, and finds equal
// bytes in every file. -short builds the host's platform only.
func TestReproducible(t *testing.T) {
	platforms := []string{runtime.GOOS + "/" + runtime.GOARCH}
	if !testing.Short() {
		platforms = append(platforms, "darwin/arm64")
	}
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "a", "longer", "path")
	var made []map[string][]byte
	for _, dir := range []string{first, second} {
		copyTree(t, dir)
		out := filepath.Join(t.TempDir(), "dist")
		if err := release(dir, out, platforms, ""); err != nil {
			t.Fatal(err)
		}
		made = append(made, read(t, out))
	}
	if want := 2*len(platforms) + 1; len(made[0]) != want || len(made[1]) != want {
		t.Fatalf("%d and %d files, want %d", len(made[0]), len(made[1]), want)
	}
	for name, content := range made[0] {
		if !bytes.Equal(content, made[1][name]) {
			t.Errorf("%s differs between two builds", name)
		}
		if strings.HasSuffix(name, ".tar.gz") {
			t.Run(name, func(t *testing.T) { checkArchive(t, name, unpack(t, content), [][]byte{[]byte(first), []byte(second)}) })
		}
		if strings.HasSuffix(name, ".cdx.json") {
			t.Run(name, func(t *testing.T) { checkMaterials(t, content) })
		}
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name); name != "SHA256SUMS" && !bytes.Contains(made[0]["SHA256SUMS"], []byte(line)) {
			t.Errorf("SHA256SUMS lacks %q", line)
		}
	}
}

// copyTree copies the sources, without Git's directory and the files that builds and runs leave.
func copyTree(t *testing.T, to string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch rel {
		case ".git", "dist", "out", "runs", "trireme":
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		dest := filepath.Join(to, rel)
		if e.IsDir() {
			return os.MkdirAll(dest, 0o777)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(dest, content, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// unpack returns the files of an archive by their paths below its directory.
func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		if files[name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if want := name == "trireme"; want != (h.Mode == 0o755) {
			t.Errorf("%s has mode %o", name, h.Mode)
		}
	}
}

// checkArchive checks that an archive has what it must, and a program that needs glibc only, names no
// directory of its build, and says the version of the archive's name.
func checkArchive(t *testing.T, name string, files map[string][]byte, dirs [][]byte) {
	want := []string{
		"trireme", "README.md", "CHANGELOG.md", "LICENSE", "licenses/std/LICENSE", "licenses/github.com/spf13/cobra/LICENSE.txt",
		"completions/trireme.bash", "completions/_trireme", "completions/trireme.fish", "completions/trireme.ps1",
	}
	for _, c := range commands(cli.Commands()) {
		want = append(want, "man/man1/"+strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
	}
	for _, n := range want {
		if len(files[n]) == 0 {
			t.Errorf("%s is missing or empty", n)
		}
	}
	program := files["trireme"]
	for _, dir := range dirs {
		if bytes.Contains(program, dir) {
			t.Errorf("the program contains the path %s", dir)
		}
	}
	if len(program) >= 50<<20 {
		t.Errorf("the program has %d bytes, the image is to stay below 50 MB", len(program))
	}
	if e, err := elf.NewFile(bytes.NewReader(program)); err == nil {
		libs, err := e.ImportedLibraries()
		if extra := slices.DeleteFunc(libs, func(l string) bool { return slices.Contains(glibc, l) }); err != nil || len(extra) > 0 {
			t.Errorf("the program needs %q (%v), want glibc only", extra, err)
		}
	}
	if !strings.HasSuffix(name, "-"+runtime.GOOS+"-"+runtime.GOARCH+".tar.gz") {
		return
	}
	root := t.TempDir()
	path := filepath.Join(root, "trireme")
	if err := os.WriteFile(path, program, 0o777); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "version").Output()
	version, _, _ := strings.Cut(string(out), "\n")
	version = strings.TrimPrefix(version, "trireme ")
	if err != nil || !strings.HasPrefix(version, "v") || !strings.HasPrefix(name, "trireme-"+version+"-") {
		t.Errorf("the program's version is %q (%v)", version, err)
	}
}

// glibc has the libraries that the program may need on Linux. Package dl loads others with them.
var glibc = []string{"libc.so.6", "libdl.so.2", "libpthread.so.0"}

// TestStatic runs the static program in an empty root file system, as in the image.
func TestStatic(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a program is never static on " + runtime.GOOS)
	}
	b, err := compile(root, runtime.GOOS+"/"+runtime.GOARCH, "static")
	if err != nil {
		t.Fatal(err)
	}
	e, err := elf.NewFile(bytes.NewReader(b.binary))
	if err != nil {
		t.Fatal(err)
	}
	if libs, err := e.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("the program needs %q (%v), want a static one", libs, err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "trireme"), b.binary, 0o777); err != nil {
		t.Fatal(err)
	}
	alone := []string{"--user", "--map-root-user", "--root=" + root, "/trireme"}
	if exec.Command("unshare", "--user", "--map-root-user", "true").Run() != nil {
		t.Log("no user namespaces here: the program was not run in an empty root file system")
	} else if out, err := exec.Command("unshare", append(alone, "version")...).CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "trireme "+b.version) {
		t.Errorf("the program in an empty root file system: %v\n%s", err, out)
	}
}

// commands lists the commands that have a man page.
func commands(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, commands(sub)...)
		}
	}
	return list
}

// checkMaterials checks that a bill of materials names the program and gives every module a version
// and a license.
func checkMaterials(t *testing.T, content []byte) {
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(content), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.SerialNumber != "" || bom.Metadata.Component.Name != "trireme" || len(*bom.Components) < 10 {
		t.Errorf("serial number %q, %s with %d components", bom.SerialNumber, bom.Metadata.Component.Name, len(*bom.Components))
	}
	for _, c := range *bom.Components {
		if c.Version == "" || c.PackageURL == "" || c.Licenses == nil || len(*c.Licenses) == 0 {
			t.Errorf("%s: version %q, package URL %q, licenses %v", c.Name, c.Version, c.PackageURL, c.Licenses)
		}
	}
}

// TestChangelog checks that the changelog's first version is the one that builds lead to.
func TestChangelog(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(content), "\n## [")
	if first, _, _ := strings.Cut(after, "]"); "v"+first != cli.Next {
		t.Errorf("CHANGELOG.md begins with %q, cli.Next is %s", first, cli.Next)
	}
}
