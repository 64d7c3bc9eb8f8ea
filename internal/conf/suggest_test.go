package conf

import "testing"

func TestNearest(t *testing.T) {
	flags := []string{"gpu_memory", "max_steps", "mode", "model", "save_every_n_epochs", "save_every_n_steps", "set"}
	for s, want := range map[string]string{
		"modle": "model", "mod": "mode", "mdoe": "mode", "max_step": "max_steps", "MaxSteps": "max_steps", "max-stpes": "max_steps",
		"gpu_mem": "gpu_memory", "gpu": "", "save_every": "", "save_every_n_s": "save_every_n_steps", "zebra": "", "": "",
	} {
		if got := Nearest(s, flags); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
