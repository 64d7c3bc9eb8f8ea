package monitor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAvailable(t *testing.T) {
	const meminfo = "MemTotal:       16777216 kB\nMemFree:  100 kB\nMemAvailable:   8388608 kB\nHugePages_Total:       0\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
		why   string
	}{
		"no groups": {nil, 8 << 30, "the machine has 16.0GiB"},
		"no limit":  {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.current": "5\n"}, 8 << 30, "the machine"},
		"own group": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "4294967296\n", "sys/fs/cgroup/a/b/memory.current": "2147483648\n",
			"sys/fs/cgroup/a/b/memory.stat": "anon 5\nactive_file 1073741824\ninactive_file 536870912\n",
		}, 3<<30 + 1<<29, "uses 512.0MiB of 4.0GiB"},
		"group above": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1073741824\n", "sys/fs/cgroup/a/memory.current": "0\n",
		}, 1 << 30, "uses 0B of 1.0GiB"},
		"version 1, shown at the root": {map[string]string{
			"proc/self/cgroup": "5:devices:/\n4:memory:/elsewhere/job\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "2147483648\n", "sys/fs/cgroup/memory/memory.stat": "total_active_file 0\n",
		}, 0, "uses 2.0GiB"},
		"version 1, no limit": {map[string]string{
			"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 8 << 30, "the machine"},
	} {
		dir := t.TempDir()
		files := map[string]string{"proc/meminfo": meminfo}
		for p, text := range c.files {
			files[p] = text
		}
		for p, text := range files {
			p = filepath.Join(dir, p)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a, err := readAvailable(dir)
		if err != nil || a.Bytes != c.want || !strings.Contains(a.Why, c.why) {
			t.Errorf("%s: %+v, %v; want %d, because %s", name, a, err, c.want, c.why)
		}
	}
	if a, err := readAvailable(t.TempDir()); err == nil {
		t.Errorf("nothing says what is available, and %+v is", a)
	}
}
