package hostfile

import (
	"fmt"
	"strings"
	"testing"
)

func text(hosts []Host) string {
	var all []string
	for _, h := range hosts {
		s := fmt.Sprintf("%s=%d", h.Name, h.Slots)
		if h.Devices != nil {
			s += fmt.Sprint(h.Devices)
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"n0 slots=4\nn1 slots=2\n":            "n0=4 n1=2",
		"# all\n\n10.0.0.1  # one\r\nb.c-d\n": "10.0.0.1=1 b.c-d=1",
		"n0 slots=4\nn1\nn0 slots=2":          "hosts:3: host n0 is also in line 1",
		"n0 slots=0":                          "hosts:1: slots=0 is not a number from 1 to 4096",
		"n0 slots=x":                          "hosts:1: slots=x is not a number",
		"n0 slot=4":                           `hosts:1: "slot=4" is not slots=N`,
		"n0 slots=1 slots=1":                  "hosts:1: slots twice",
		"-oProxyCommand=x":                    `hosts:1: "-oProxyCommand=x" is not a host's name`,
		"a@b":                                 `hosts:1: "a@b" is not a host's name`,
		"n0 4":                                `hosts:1: "4" is not slots=N`,
		"# none\n":                            "hosts: no hosts",
		"":                                    "hosts: no hosts",
	} {
		hosts, err := Parse("hosts", in)
		got := text(hosts)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, not %s", in, got, want)
		}
	}
}

func TestSelect(t *testing.T) {
	hosts := []Host{{Name: "h0", Slots: 2}, {Name: "h1", Slots: 4}, {Name: "h2", Slots: 1}}
	for _, c := range []struct{ include, exclude, want string }{
		{"", "", "h0=2 h1=4 h2=1"},
		{"h1:2,0@h0", "", "h0=2 h1=2[0 2]"},
		{"", "h1:2,0@h0", "h1=2[1 3] h2=1"},
		{"", "h2:0", "h0=2 h1=4"},
		{"h0", "h1", "--include and --exclude contradict"},
		{"h3", "", `--include "h3": no host "h3" in the hostfile`},
		{"h0:2", "", `--include "h0:2": host h0 has slots 0 to 1, not 2`},
		{"h0:0,0", "", `--include "h0:0,0": device 0 of host h0 twice`},
		{"h0@h0", "", `--include "h0@h0": host h0 twice`},
		{"", "h0:x", `--exclude "h0:x": "x" is not a device's number`},
		{"", "h0@h1@h2", `--exclude "h0@h1@h2" leaves no host`},
		{"h0:", "", `--include "h0:": "" is not a device's number`},
	} {
		got, err := Select(hosts, c.include, c.exclude)
		s := text(got)
		if err != nil {
			s = err.Error()
		}
		if !strings.HasPrefix(s, c.want) {
			t.Errorf("%q %q: %s, not %s", c.include, c.exclude, s, c.want)
		}
	}
}

func FuzzHosts(f *testing.F) {
	f.Add("n0 slots=4\nn1 # x", "n0:0,2@n1", "")
	f.Add("a\nb", "", "a")
	f.Fuzz(func(t *testing.T, file, include, exclude string) {
		hosts, err := Parse("hosts", file)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		chosen, err := Select(hosts, include, exclude)
		if err == nil && len(chosen) == 0 {
			t.Error("no hosts")
		}
		for _, h := range chosen {
			if h.Slots < 1 || h.Name == "" || h.Name[0] == '-' || h.Devices != nil && len(h.Devices) != h.Slots {
				t.Errorf("%+v", h)
			}
		}
	})
}
