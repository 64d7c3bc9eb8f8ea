package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/pflag"

	"trireme/collective/tcp"
	"trireme/launch"
	"trireme/parallel"
	"trireme/rendezvous"
)

// secretFlags are the flags of the job's secret, for commands whose ranks may be on several machines.
type secretFlags struct {
	file     string
	insecure bool
}

func (f *secretFlags) add(p *pflag.FlagSet) {
	p.StringVar(&f.file, "secret_file", "", "`FILE` with the job's secret, for ranks on several machines (also "+rendezvous.SecretFileVar+")")
	p.BoolVar(&f.insecure, "insecure", false, "ranks on several machines join without a secret, and their data is not encrypted (also "+rendezvous.InsecureVar+"=1)")
}

// lookup is os.LookupEnv in which the flags replace variables, except for the secret that a launcher passes.
func (f *secretFlags) lookup(name string) (string, bool) {
	switch {
	case name == rendezvous.SecretFileVar && f.file != "":
		return f.file, true
	case name == rendezvous.InsecureVar && f.insecure:
		return "1", true
	}
	return os.LookupEnv(name)
}

// named returns an error of the secret's file, with the flag that named it.
func (f *secretFlags) named(err error) error {
	if path := (*os.PathError)(nil); f.file != "" && errors.As(err, &path) {
		return &Problem{Text: fmt.Sprintf("--secret_file: %s: %v", path.Path, path.Err), Try: makeSecret}
	}
	return err
}

// makeSecret makes a job's secret.
const makeSecret = "(umask 077; openssl rand -hex 32 > job.secret), and that file on every host"

// env reads this process's variables.
func (f *secretFlags) env() (rendezvous.Env, error) {
	lookup, without := shareByMPI(f.lookup)
	env, err := rendezvous.Read(lookup)
	if err != nil {
		if without != nil {
			err = fmt.Errorf("%w (MPI did not pass it: %w)", err, without)
		}
		return env, &Exit{CodeUsage, f.named(err)}
	}
	return env, nil
}

// warnInsecure writes a line if the ranks of env on several machines are not protected. The launcher has written
// it for its workers.
func warnInsecure(env rendezvous.Env, out io.Writer) {
	if env.Insecure && !env.OneMachine() && env.LocalRank == 0 && !launch.IsWorker(os.LookupEnv) {
		fmt.Fprintln(out, insecureWarning(env.Secret))
	}
}

func insecureWarning(secret []byte) string {
	who := "anyone on the network can join, read and change this run"
	if secret != nil {
		who = "anyone on the path between machines can read and change this run"
	}
	return "warning: insecure: connections between machines are not encrypted or authenticated: " + who
}

// modeOf returns the protection of data connections, where a store at addr joined the ranks.
func modeOf(env rendezvous.Env, security parallel.Security, addr string) tcp.Mode {
	host, _, _ := net.SplitHostPort(addr)
	switch {
	case env.OneMachine(), env.Insecure, rendezvous.IsLoopback(host):
		return tcp.Plain
	case security == parallel.Sign:
		return tcp.Sign
	}
	return tcp.Encrypt
}
