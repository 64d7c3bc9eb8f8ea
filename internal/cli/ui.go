package cli

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"trireme/internal/ui"
)

// uiAddr is the default of --addr.
const uiAddr = "127.0.0.1:7474"

type uiFlags struct {
	addr     string
	insecure bool
}

func newUI() *cobra.Command {
	var f uiFlags
	c := &cobra.Command{
		Use:   "ui [DIR...]",
		Short: "serve a web page with the charts of runs",
		Long: `Serve a web page with the runs below each DIR (default runs): charts, time and memory, traces,
verdicts and configurations, live while runs write. It prints its address and serves until Ctrl-C.
It opens no browser, loads nothing from elsewhere and changes nothing in a run but its index.

The page is for this machine (--addr ` + uiAddr + `; port 0 takes a free one). To see it from another,
forward the port: ssh -L 7474:127.0.0.1:7474 HOST. With an address that others can reach, the printed
address has a token, without which nothing is served; --insecure serves without one. The page is not
encrypted.`,
		Example: `  trireme ui
  trireme ui runs/llama-1 runs/llama-2
  trireme ui /shared/runs --addr 127.0.0.1:0`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	c.Flags().StringVar(&f.addr, "addr", uiAddr, "listen on this `HOST:PORT`; port 0 takes a free port")
	c.Flags().BoolVar(&f.insecure, "insecure", false, "serve without a token on an address that others can reach")
	return c
}

func (f *uiFlags) run(c *cobra.Command, dirs []string) error {
	if len(dirs) == 0 {
		dirs = []string{runsDir}
		if st, err := os.Stat(runsDir); err != nil || !st.IsDir() {
			return &Exit{CodeUsage, &Problem{Text: "there is no directory " + runsDir + " here", Try: "trireme ui DIR, the output directory of a run or one that has runs below it"}}
		}
	}
	for _, dir := range dirs {
		switch st, err := os.Stat(dir); {
		case err != nil:
			return &Exit{CodeUsage, &Problem{Text: fmt.Sprintf("%s: %v", dir, errors.Unwrap(err)), Try: "the output directory of a run, or one that has runs below it"}}
		case !st.IsDir():
			return &Exit{CodeUsage, &Problem{Text: dir + " is not a directory", Try: "the output directory of a run, or one that has runs below it"}}
		}
	}
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		return &Exit{CodeUsage, &Problem{Text: fmt.Sprintf("--addr: %v", err), Try: "--addr 127.0.0.1:0, which takes a free port"}}
	}
	cfg := ui.Config{Dirs: dirs}
	if addr, ok := l.Addr().(*net.TCPAddr); !ok || !addr.IP.IsLoopback() {
		if f.insecure {
			fmt.Fprintln(c.ErrOrStderr(), "warning: insecure: anyone who reaches "+l.Addr().String()+" can read these runs")
		} else {
			cfg.Token = ui.NewToken()
		}
	}
	s, err := ui.New(cfg)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if _, err := fmt.Fprintln(c.OutOrStdout(), pageURL(l.Addr(), cfg.Token)); err != nil {
		return errors.Join(err, s.Close(), l.Close())
	}
	defer s.Close()
	// A stop signal ends the process at once: there is nothing to save.
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16}
	return server.Serve(l)
}

// pageURL is the page's address for a browser. An address that means all interfaces is named by the host's name.
func pageURL(a net.Addr, token string) string {
	host := a.String()
	if addr, ok := a.(*net.TCPAddr); ok && addr.IP.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = net.JoinHostPort(name, fmt.Sprint(addr.Port))
		}
	}
	if token != "" {
		return "http://" + host + "/?token=" + token
	}
	return "http://" + host + "/"
}
