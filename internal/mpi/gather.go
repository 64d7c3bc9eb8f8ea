package mpi

import (
	"context"
	"encoding/binary"
	"errors"
)

// maxGathered is the limit of a value of AllGather, in bytes.
const maxGathered = 4096

// AllGather returns the values of all processes, when all have called it. Process 0 collects and sends them.
func (p *Process) AllGather(ctx context.Context, value []byte) ([][]byte, error) {
	if len(value) > maxGathered {
		return nil, errGathered
	}
	c, err := p.Dup(ctx)
	if err != nil {
		return nil, err
	}
	const collect, send = 1, 2 // tags
	all := make([][]byte, p.Size)
	if p.Rank > 0 {
		if err := c.send(ctx, 0, collect, value); err != nil {
			return nil, err
		}
		for r := range all {
			if all[r], err = c.receive(ctx, 0, send); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	all[0] = value
	for r := 1; r < p.Size; r++ {
		if all[r], err = c.receive(ctx, r, collect); err != nil {
			return nil, err
		}
	}
	for r := 1; r < p.Size; r++ {
		for _, v := range all {
			if err := c.send(ctx, r, send, v); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

var errGathered = errors.New("mpi: a value of AllGather is too large")

func (c *Comm) send(ctx context.Context, to, tag int, value []byte) error {
	b := NewBuffer(4 + len(value))
	binary.LittleEndian.PutUint32(b.B, uint32(len(value)))
	copy(b.B[4:], value)
	return c.Send(b, to, tag).await(ctx)
}

func (c *Comm) receive(ctx context.Context, from, tag int) ([]byte, error) {
	b := NewBuffer(4 + maxGathered)
	if err := c.Recv(b, from, tag, false).await(ctx); err != nil {
		return nil, err // MPI may still use b
	}
	defer b.Free()
	n := binary.LittleEndian.Uint32(b.B)
	if n > maxGathered {
		return nil, errGathered
	}
	return append([]byte(nil), b.B[4:][:n]...), nil
}

func (r *Request) await(ctx context.Context) error {
	select {
	case <-r.Done():
		return r.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
