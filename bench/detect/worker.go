package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"trireme/collective"
	"trireme/collective/shm"
	"trireme/collective/tcp"
	"trireme/flight"
	"trireme/rendezvous"
	"trireme/tensor"
)

// workerVar is the variable with the heartbeat of a rank.
const workerVar = "DETECT_HEARTBEAT"

// work runs all-reduces as one rank until one fails, and prints when and why.
func work() error {
	heartbeat, err := time.ParseDuration(os.Getenv(workerVar))
	if err != nil {
		return err
	}
	env, err := rendezvous.Read(os.LookupEnv)
	if err != nil {
		return err
	}
	ctx := context.Background()
	host, _ := os.Hostname()
	rec := flight.New(flight.Identity{Rank: env.Rank, Size: env.WorldSize, PID: os.Getpid(), Host: host})
	store, err := rendezvous.Join(ctx, env, rendezvous.Config{Timeout: 2 * time.Minute, Heartbeat: heartbeat, Recorder: rec})
	if err != nil {
		return err
	}
	cfg := collective.Config{Timeout: 20 * time.Minute, Recorder: func(int) *flight.Recorder { return rec }}
	var w collective.World
	if env.OneMachine() {
		w, err = shm.Open(ctx, shm.Config{Config: cfg, Rank: env.Rank, Size: env.WorldSize, Bootstrap: store, Key: "world"})
	} else {
		var secret []byte
		if secret, err = store.Key("collective/tcp"); err != nil {
			return err
		}
		// The hosts' addresses are on the network of the store.
		w, err = tcp.Open(ctx, tcp.Config{Config: cfg, Rank: env.Rank, Size: env.WorldSize, Bootstrap: store, Key: "world", Secret: secret, Job: env.RunID, Host: host, Node: env.GroupRank})
	}
	if err != nil {
		return err
	}
	go func() {
		<-store.Done()
		f := &collective.Failure{Kind: collective.ErrPeerLost, Rank: env.Rank, Text: fmt.Sprint(store.Err())}
		var lost *rendezvous.Failure
		if errors.As(store.Err(), &lost) && lost.Rank >= 0 {
			f.Lost = []int{lost.Rank}
		}
		w.Abort(f)
	}()
	ranks := make([]int, env.WorldSize)
	for r := range ranks {
		ranks[r] = r
	}
	g, err := w.Group("all", ranks)
	if err != nil {
		return err
	}
	x := tensor.Of(tensor.NewBuffer(make([]byte, 4<<16), 4<<16, tensor.Grads, nil), tensor.F32, 0, 1<<16)
	for i := 0; ; i++ {
		if err := g.AllReduce(ctx, x, collective.Sum, "step"); err != nil {
			fmt.Println("lost", time.Now().UnixNano(), err)
			return nil
		}
		if i == 0 {
			fmt.Println("runs")
		}
	}
}
