package repotest

import (
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// TestSite: links and anchors of the built site lead somewhere, and nothing is loaded from another
// host. `make site` builds the site and runs this.
func TestSite(t *testing.T) {
	dir := os.Getenv("SITE")
	if dir == "" {
		t.Skip("the site is not checked: it is not built. try: make site")
	}
	problems, pages, err := checkSite(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if pages < 30 {
		t.Errorf("the site has %d pages", pages)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

var (
	tag       = regexp.MustCompile(`<([a-zA-Z][a-zA-Z0-9]*)((?:\s+[^\s=>]+(?:="[^"]*")?)*)\s*/?>`)
	attribute = regexp.MustCompile(`([^\s=>]+)="([^"]*)"`)
	cssURL    = regexp.MustCompile(`url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)`)
)

// checkSite lists dead links and loads from other hosts, with the number of pages.
func checkSite(site fs.FS) (problems []string, pages int, err error) {
	ids := map[string]map[string]bool{} // of each page
	links := map[string][]string{}
	err = fs.WalkDir(site, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(site, name)
		if err != nil {
			return err
		}
		switch path.Ext(name) {
		case ".html":
			pages++
			ids[name] = map[string]bool{}
			for _, m := range tag.FindAllStringSubmatch(string(text), -1) {
				for _, a := range attribute.FindAllStringSubmatch(m[2], -1) {
					value := html.UnescapeString(a[2])
					switch a[1] {
					case "id", "name":
						ids[name][value] = true
					case "href", "src", "srcset", "poster", "action":
						if !strings.Contains(value, ":") && !strings.HasPrefix(value, "//") {
							links[name] = append(links[name], value)
						} else if m[1] != "a" && !strings.HasPrefix(value, "data:") {
							problems = append(problems, fmt.Sprintf("%s loads %s", name, value))
						}
					}
				}
			}
		case ".css":
			for _, m := range cssURL.FindAllStringSubmatch(string(text), -1) {
				if at := m[1] + m[2]; strings.Contains(at, "//") && !strings.HasPrefix(at, "data:") {
					problems = append(problems, fmt.Sprintf("%s loads %s", name, at))
				}
			}
		}
		return nil
	})
	for page, targets := range links {
		for _, target := range targets {
			u, err := url.Parse(target)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s links to %q: %v", page, target, err))
				continue
			}
			to := page
			if u.Path != "" {
				to = path.Join(path.Dir(page), u.Path)
			}
			if _, err := fs.Stat(site, to); err != nil {
				problems = append(problems, fmt.Sprintf("%s links to %s, which is not there", page, target))
				continue
			}
			if anchors, ok := ids[to]; ok && u.Fragment != "" && !anchors[u.Fragment] {
				problems = append(problems, fmt.Sprintf("%s links to %s, which has no such heading", page, target))
			}
		}
	}
	return problems, pages, err
}

// TestCheckSite shows the check a site with each problem.
func TestCheckSite(t *testing.T) {
	problems, pages, err := checkSite(fstest.MapFS{
		"a.html":     {Data: []byte(`<a href="d/b.html#x">b</a> <a href="https://go.dev">go</a> <img src="data:x"/> <link rel="stylesheet" href="s.css">`)},
		"d/b.html":   {Data: []byte(`<h1 id="x">x</h1> <a href="../a.html#y">a</a> <a href="c.html">c</a> <script async src="https://cdn.example/x.js"></script>`)},
		"s.css":      {Data: []byte(`@import "https://fonts.example/a"; p { background: url(x.png) }`)},
		"d/note.txt": {Data: []byte(`url(https://other.example)`)},
	})
	if err != nil || pages != 2 {
		t.Fatalf("%d pages, %v", pages, err)
	}
	all := strings.Join(problems, "\n")
	for _, want := range []string{"a.html#y, which has no such heading", "c.html, which is not there", "d/b.html loads https://cdn.example/x.js", "s.css loads https://fonts.example/a"} {
		if !strings.Contains(all, want) {
			t.Errorf("no problem %q among:\n%s", want, all)
		}
	}
	if len(problems) != 4 {
		t.Errorf("%d problems:\n%s", len(problems), all)
	}
}

// TestSiteHasPages: the site's sidebar lists every page of docs.
func TestSiteHasPages(t *testing.T) {
	root := os.DirFS(repository(t))
	conf, err := fs.ReadFile(root, "site/conf.py")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := fs.Glob(root, "docs/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, p := range pages {
		if !strings.Contains(string(conf), `"`+strings.TrimSuffix(p, ".md")+`"`) {
			t.Errorf("the sidebar in site/conf.py does not list %s", p)
		}
	}
}
