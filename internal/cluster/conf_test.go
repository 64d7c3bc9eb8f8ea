package cluster

import (
	"strings"
	"testing"
	"time"
)

func TestParseConf(t *testing.T) {
	c, notes, err := ParseConf("join_timeout=90, last_call_timeout=0.5,keep_alive_interval=2,keep_alive_max_attempt=4,is_host=True,use_libuv=1")
	if err != nil || c.JoinTimeout != 90*time.Second || c.LastCall != time.Second/2 || c.Lease != 8*time.Second || c.Host == nil || !*c.Host {
		t.Errorf("%+v, %v", c, err)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "use_libuv has no effect") {
		t.Error(notes)
	}
	if c, _, err := ParseConf("timeout=10"); err != nil || c.JoinTimeout != 10*time.Second {
		t.Errorf("%+v, %v", c, err)
	}
	if c, _, err := ParseConf("keep_alive_interval=1"); err != nil || c.Lease != 3*time.Second {
		t.Errorf("%+v, %v", c, err)
	}
	if c, _, err := ParseConf(""); err != nil || c != (Conf{}) {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"join":              `"join" is not KEY=VALUE`,
		"join_timeout":      "is not KEY=VALUE",
		"joinTimeout=5":     `unknown key "joinTimeout"`,
		"join=5":            "try: join_timeout",
		"join_timeout=soon": "join_timeout=soon is not a positive number",
		"join_timeout=-1":   "is not a positive number",
		"join_timeout=NaN":  "is not a positive number",
		"is_host=maybe":     "is not true or false",
		"frobnicate=1":      "try: one of join_timeout, ",
	} {
		if _, _, err := ParseConf(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestValidate(t *testing.T) {
	one := 1
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, ""},
		{Config{MinHosts: 2, MaxHosts: 2, Endpoints: []string{"n0"}}, ""},
		{Config{MinHosts: 2, MaxHosts: 2, MasterAddr: "n0", NodeRank: &one}, ""},
		{Config{MinHosts: 4, MaxHosts: 2, Endpoints: []string{"n0"}}, "--nnodes is 4:2: it must be a number, or MIN:MAX. try: --nnodes 2:4"},
		{Config{MinHosts: 2}, "needs an address"},
		{Config{MinHosts: 2, MasterAddr: "n0"}, "each of 2 hosts needs its --node-rank"},
		{Config{NodeRank: &one}, "--node-rank is 1, not 0 to 0"},
		{Config{MinHosts: 2, Endpoints: []string{"n0", "n1"}}, "one copy, or three"},
		{Config{MinHosts: 2, Endpoints: []string{"n0:1", "n1:1", "n0:1"}}, "n0:1 twice"},
		{Config{MinHosts: 2, Endpoints: []string{"n0:x:1"}}, "is not HOST:PORT"},
		{Config{MinHosts: 2, Endpoints: []string{"n0:x"}}, `"n0:x" is not HOST:PORT`},
		{Config{MinHosts: 2, Endpoints: []string{"n0:0"}}, `"n0:0" is not HOST:PORT`},
		{Config{MaxRestarts: -1}, "--max-restarts is -1"},
	} {
		err := c.cfg.Validate()
		if got := ""; err != nil {
			got = err.Error()
			if c.want == "" || !strings.Contains(got, c.want) {
				t.Errorf("%+v: %s", c.cfg, got)
			}
		} else if c.want != "" {
			t.Errorf("%+v: no error %q", c.cfg, c.want)
		}
	}
}
