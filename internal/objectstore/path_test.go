package objectstore

import (
	"math"
	"path"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for url, want := range map[string]string{
		"s3://bucket": "s3://bucket", "s3://bucket/": "s3://bucket", "s3://my.bucket-1/a/b c/": "s3://my.bucket-1/a/b c", "s3://bucket/ü": "s3://bucket/ü",
		"s3://": "", "s3:///a": "", "s3://bucket//a": "", "s3://bucket/../a": "", "s3://bucket/a/./b": "", "s3://Bucket/a": "", "s3://bu": "", "bucket/a": "",
		"s3://bucket/a\nb": "", "s3://bucket/\xff": "", "s3://-bucket": "", "s3://bucket/" + strings.Repeat("a", 1025): "", "s3://a..bc/d": "",
	} {
		p, err := Parse(url)
		if (err == nil) != (want != "") || err == nil && p.String() != want || err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, %v", url, p, err)
		}
	}
}

func TestJoin(t *testing.T) {
	for _, c := range [][2]string{
		{Join("s3://b/a/", "x", "y"), "s3://b/a/x/y"}, {Join("a/", "x"), "a/x"}, {Dir("s3://b/a/x/"), "s3://b/a"}, {Dir("s3://bbb"), "s3://bbb"},
		{Dir("a/b"), "a"}, {Clean("s3://b/a//"), "s3://b/a"}, {Clean("a//b/"), "a/b"}, {path.Base(Join("s3://b", "step-1")), "step-1"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, not %q", c[0], c[1])
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"s3://bucket/a/b", "s3://bucket", "s3://", "file"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("error of several lines: %q", err)
			}
			return
		}
		again, err := Parse(p.String())
		if err != nil || again != p || !IsURL(s) || len(p.Key) > maxKey {
			t.Fatalf("%q: %v, then %v, %v", s, p, again, err)
		}
		if in, err := Parse(Join(s, "x")); err == nil && (in.Bucket != p.Bucket || Dir(in.String()) != p.String()) {
			t.Fatalf("%q: %v in %v", s, in, p)
		}
	})
}

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-1/2", "bytes 5-9/10", "bytes */0", "bytes 1-0/5", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, last, size, ok := parseRange(s)
		if ok && (first < 0 || last < first || size <= last || size == math.MaxInt64) {
			t.Fatalf("%q: %d-%d/%d", s, first, last, size)
		}
	})
}
