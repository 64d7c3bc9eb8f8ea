package launch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trireme/rendezvous"
)

const modeVar = "LAUNCH_TEST_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVar); mode != "" {
		os.Exit(worker1(mode))
	}
	goleak.VerifyTestMain(m)
}

// worker1 is the launched process. Rank 1 is the victim.
func worker1(mode string) int {
	env, err := rendezvous.Read(os.LookupEnv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	release, err := ExitWithParent(os.LookupEnv, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer release()
	mode, arg, _ := strings.Cut(mode, "=")
	index, _ := env.Processes()
	victim := index == 1
	forever := make(chan struct{})
	switch mode {
	case "launcher": // starts two sleeping workers and prints their pids
		code, _ := Run(context.Background(), Config{Nproc: 2, Command: []string{os.Args[0]}, Env: append(os.Environ(), modeVar+"="+arg), Output: showAll, Stdout: os.Stdout})
		return code
	case "exit":
		if victim {
			n, _ := strconv.Atoi(arg)
			fmt.Println("on stdout")
			fmt.Fprintln(os.Stderr, "the last thing it said")
			return n
		}
		<-forever
	case "affinity": // prints the processors of all threads
		all, err := threadProcessors()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Printf("on %s with %d\n", strings.Join(all, "; "), runtime.GOMAXPROCS(0))
	case "allexit":
		n, _ := strconv.Atoi(arg)
		fmt.Fprintln(os.Stderr, "all of us")
		return n
	case "reason":
		if victim {
			os.WriteFile(os.Getenv("TORCHELASTIC_ERROR_FILE"), []byte(`{"message": {"message": "RuntimeError: no oars", "extraInfo": {}}}`), 0o644)
			return 1
		}
		<-forever
	case "kill":
		if victim {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		<-forever
	case "peerlost": // rank 0 detects the loss and ends long before the rank that caused it
		if env.Rank == 0 {
			return CodePeerLost
		}
		time.Sleep(3 * settle)
		return 9
	case "blame": // rank 1 is stopped, rank 0 reports it, and rank 2 waits for rank 0
		stop := HandleSignals(os.LookupEnv, os.Stderr, nil)
		defer stop.Close()
		switch {
		case victim:
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		case arg != "":
			stop.ReportRootCause(env.Rank, 7, "it is elsewhere")
		case env.Rank == 2:
			stop.ReportRootCause(env.Rank, 0, "no answer from rank 0\nin two lines")
		default:
			time.Sleep(50 * time.Millisecond)
			stop.ReportRootCause(env.Rank, 1, "no answer for 1s")
		}
		return CodePeerLost
	case "failed": // rank 3 of the process of ranks 2 and 3
		stop := HandleSignals(os.LookupEnv, os.Stderr, nil)
		defer stop.Close()
		if victim {
			stop.ReportFailed(3)
			return 9
		}
		<-forever
	case "within": // ranks of a process report their neighbor, which hangs
		stop := HandleSignals(os.LookupEnv, os.Stderr, nil)
		defer stop.Close()
		if !victim {
			stop.ReportRootCause(0, 2, "no answer from rank 2")
			return CodePeerLost
		}
		stop.ReportRootCause(2, 3, "no answer from rank 3")
		return CodePeerLost
	case "still": // rank 1 is stopped before another rank can detect it
		if victim {
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
		time.Sleep(10 * time.Second)
		return 9
	case "stutter": // rank 1 is stopped again and again, and computes between
		if !victim {
			return 0
		}
		pauses := exec.Command("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do kill -STOP $0; sleep 0.12; kill -CONT $0; sleep 0.05; done", fmt.Sprint(os.Getpid()))
		if err := pauses.Start(); err != nil {
			return 9
		}
		ended := make(chan error, 1)
		go func() { ended <- pauses.Wait() }()
		for len(ended) == 0 {
			_ = time.Now().String()
		}
		if <-ended != nil {
			return 9
		}
		return 0
	case "early": // a crash before HandleSignals
		if env.Rank == 0 {
			panic("no boat")
		}
		<-forever
	case "crash":
		stop := HandleSignals(os.LookupEnv, os.Stderr, nil)
		defer stop.Close()
		fmt.Fprintln(os.Stderr, "ready")
		if env.Rank == 0 {
			switch arg {
			case "panic":
				go panic("no oars")
			case "fatal":
				new(sync.Mutex).Unlock()
			case "segv":
				syscall.Kill(os.Getpid(), syscall.SIGSEGV)
			case "abort":
				syscall.Kill(os.Getpid(), syscall.SIGABRT)
			}
		}
		<-forever
	case "deaf": // rank 0 ignores SIGTERM
		if arg != "" {
			signal.Ignore(syscall.SIGTERM)
			fmt.Println("pid", os.Getpid())
			<-forever
		}
		if victim {
			time.Sleep(100 * time.Millisecond)
			return 3
		}
		signal.Ignore(syscall.SIGTERM)
		<-forever
	case "sleep":
		fmt.Println("pid", os.Getpid())
		<-forever
	case "untied":
		release()
		fmt.Println("pid", os.Getpid())
		<-forever
	case "join": // secret, port and store
		s, err := rendezvous.Join(context.Background(), env, rendezvous.Config{Timeout: 10 * time.Second})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer s.Close()
		if len(env.Secret) < 16 {
			return 5
		}
		for _, kv := range os.Environ() {
			if strings.Contains(kv, string(env.Secret)) {
				return 6
			}
		}
		all, err := s.AllGather(context.Background(), "who", []byte(strconv.Itoa(env.Rank)))
		if err != nil {
			return 7
		}
		fmt.Printf("%s\n", bytes.Join(all, []byte(" ")))
	case "world":
		fmt.Printf("%d of %d, here %d of %d, %d ranks, host %d of %d, %s:%d, job %s %d/%d, %s\n", env.Rank, env.WorldSize, env.LocalRank, env.LocalWorldSize, env.Ranks,
			env.GroupRank, env.GroupWorldSize, env.MasterAddr, env.MasterPort, env.RunID, env.RestartCount, env.MaxRestarts, env.Secret)
	case "stop":
		s := HandleSignals(os.LookupEnv, os.Stderr, nil)
		defer s.Close()
		defer s.Graceful()()
		s.SetDumpDir(os.Getenv("LAUNCH_TEST_DIR"), RankName(env.Rank))
		fmt.Println("ready")
		<-s.Context().Done()
		fmt.Println(s.Requested().Signal)
		if arg == "hang" {
			s.SetGrace(time.Minute)
			<-forever
		}
		return CodeStopped
	case "stopped": // rank 1 is stopped
		s := HandleSignals(os.LookupEnv, os.Stderr, nil)
		defer s.Close()
		defer s.Graceful()()
		fmt.Println("ready")
		if victim {
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
		s.SetGrace(time.Minute)
		<-forever
	case "plain":
		fmt.Println("ready")
		<-forever
	case "file":
		fd, err := strconv.Atoi(os.Getenv("TEST_FD"))
		if (err == nil) != (env.Rank == 0) {
			return 8
		}
		if env.Rank == 0 {
			fmt.Fprint(os.NewFile(uintptr(fd), ""), "by descriptor")
		}
	case "grandchild":
		c := exec.Command("sleep", "1000")
		c.Stdout = os.Stdout
		if err := c.Start(); err != nil {
			return 1
		}
		fmt.Println("pid", c.Process.Pid)
	case "talk":
		fmt.Printf("out %d\n", env.Rank)
		fmt.Fprintf(os.Stderr, "err %d\n", env.Rank)
	default:
		return 99
	}
	return 0
}

// threadProcessors returns the lists of processors of this process's threads, on Linux, without repeats.
func threadProcessors() (all []string, err error) {
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		return nil, err
	}
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(text)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok && !slices.Contains(all, strings.TrimSpace(list)) {
				all = append(all, strings.TrimSpace(list))
			}
		}
	}
	return all, nil
}
