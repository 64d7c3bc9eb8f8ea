package cli

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"trireme/collective"
	"trireme/device"
	"trireme/internal/pjrt/pjrttest"
	"trireme/tensor"
)

// A rank fails while the programs of the others wait for it in a collective on the device, which nothing can
// interrupt: the process ends with its error. It runs in a child process, because the plug-in ends a process
// in which a rank is missing for long.
func TestRankFailsOnDevice(t *testing.T) {
	const child = "TRIREME_TEST_RANK_FAILS"
	plugin := os.Getenv(child)
	if plugin == "" {
		c := exec.Command(os.Args[0], "-test.run", "^TestRankFailsOnDevice$")
		c.Env = append(os.Environ(), child+"="+pjrttest.CPU(t), "HOME="+t.TempDir())
		began := time.Now()
		out, err := c.CombinedOutput()
		want := "rank 0 did not end within 1s\nrank 2 did not end within 1s\nrank 1: disk on fire\n"
		if err != nil || string(out) != want || time.Since(began) > 15*time.Second {
			t.Errorf("%v after %v: %s", err, time.Since(began), out)
		}
		return
	}
	var out notes
	p := testProcesses(t, 1, 3, waits{timeout: 20 * time.Second, grace: time.Second}, &out)[0]
	c := device.DefaultConfig()
	c.Name, c.Plugin = device.XLA, plugin
	err := p.run("auto", func(w *world) error {
		b, err := c.Open(w.device(), w.Arena(), w.Size(), nil)
		if err != nil {
			return err
		}
		g, err := b.(interface {
			World(collective.World) collective.World
		}).World(w.World).Group("all", []int{0, 1, 2})
		if err != nil {
			return err
		}
		x := b.New(tensor.Activations, tensor.F32, 4)
		for step := range 3 {
			if step == 2 && w.env.Rank == 1 {
				return errors.New("disk on fire")
			}
			if err := tensor.Compile(b, false, func() error {
				b.Fill(x, 1)
				return g.AllReduce(w.conn.ctx, x, collective.Sum, "x")
			}); err != nil {
				return err
			}
			b.Sync()
		}
		return nil
	})
	out.Write([]byte(err.Error() + "\n"))
	os.Stdout.WriteString(out.String())
	os.Exit(0)
}
