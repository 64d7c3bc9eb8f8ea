package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("out", "dist", "directory to write to; created if missing")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "comma-separated list of GOOS/GOARCH")
	tags := flag.String("tags", "", "build tags; static leaves out what loads libraries, which accelerators need")
	root := flag.String("root", "../..", "root of the source tree")
	flag.Parse()
	if err := release(*root, *out, strings.Split(*platforms, ","), *tags); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// release builds each platform from the sources at root and writes its files to out.
func release(root, out string, platforms []string, tags string) error {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	var sums []string
	write := func(name string, content []byte) error {
		sums = append(sums, sum(name, content))
		fmt.Printf("%s %d bytes\n", name, len(content))
		return os.WriteFile(filepath.Join(out, name), content, 0o666)
	}
	for _, p := range platforms {
		b, err := compile(root, p, tags)
		if err != nil {
			return err
		}
		modules, err := linked(root, b)
		if err != nil {
			return err
		}
		files, err := contents(root, b, modules)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("trireme-%s-%s-%s", b.version, b.goos, b.goarch)
		packed, err := archive(name, files, b.time)
		if err != nil {
			return err
		}
		if err := write(name+".tar.gz", packed); err != nil {
			return err
		}
		bill, err := materials(b, modules)
		if err != nil {
			return err
		}
		if err := write(name+".cdx.json", bill); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o666)
}

// contents lists the files of one platform's archive.
func contents(root string, b *build, modules []module) ([]file, error) {
	files := []file{{"trireme", b.binary, true}}
	for _, name := range []string{"README.md", "CHANGELOG.md", "LICENSE"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, content, false})
	}
	for _, m := range modules {
		for _, l := range m.licenses {
			files = append(files, file{"licenses/" + m.Path + "/" + l.name, l.text, false})
		}
	}
	shown, err := pages(b)
	if err != nil {
		return nil, err
	}
	return append(files, shown...), nil
}

// file is one file of an archive, with a slash-separated path.
type file struct {
	path       string
	content    []byte
	executable bool
}

func compareFiles(a, b file) int { return cmp.Compare(a.path, b.path) }
