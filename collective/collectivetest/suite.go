package collectivetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"trireme/collective"
	"trireme/tensor"
)

var sizes = []int{1, 2, 3, 5, 8}

// Run runs the whole suite.
func Run(t *testing.T, mk Make) {
	suite(t, maker{worlds: mk, meeting: meeting})
}

// RunRank runs the suite in one of n processes, which all call it, each as one rank. It skips tests of
// another number of ranks. meet returns when all ranks have called it.
func RunRank(t *testing.T, rank, n int, open func(t *testing.T, cfg collective.Config) collective.World, meet func()) {
	suite(t, maker{
		worlds: func(t *testing.T, size int, cfg collective.Config) []collective.World {
			if size != n {
				t.Skipf("a test of %d ranks", size)
			}
			ws := make([]collective.World, n)
			ws[rank] = open(t, cfg)
			return ws
		},
		meeting: func(int) func(int) { return func(int) { meet() } },
	})
}

// RunOperations runs the part of the suite in which no rank fails, in one process.
func RunOperations(t *testing.T, mk Make) { suiteOperations(t, maker{worlds: mk, meeting: meeting}) }

func suite(t *testing.T, mk maker) {
	suiteOperations(t, mk)
	t.Run("failures", func(t *testing.T) { failures(t, mk) })
}

func suiteOperations(t *testing.T, mk maker) {
	t.Run("operations", func(t *testing.T) { operations(t, mk) })
	t.Run("reduce_scatter", func(t *testing.T) { reduceScatter(t, mk) })
	t.Run("sequence", func(t *testing.T) { sequence(t, mk) })
	t.Run("groups", func(t *testing.T) { groups(t, mk) })
	t.Run("mesh", func(t *testing.T) { mesh(t, mk) })
	t.Run("messages", func(t *testing.T) { messages(t, mk) })
	t.Run("pipeline", func(t *testing.T) { pipeline(t, mk) })
}

func parts(dt tensor.DType, n, ranks int) [][]byte {
	p := make([][]byte, ranks)
	for r := range p {
		p[r] = values(dt, n, r)
	}
	return p
}

// chunks returns chunk c of n of each part.
func chunks(p [][]byte, c, n int) [][]byte {
	out := make([][]byte, len(p))
	for i, b := range p {
		m := len(b) / n
		out[i] = b[c*m : (c+1)*m]
	}
	return out
}

func join(p [][]byte) (all []byte) {
	for _, b := range p {
		all = append(all, b...)
	}
	return all
}

// operations runs each operation on all types, at lengths around the special cases.
func operations(t *testing.T, mk maker) {
	lengths := []int{0, 1, 3, 1023, 1025, 4099, 40007}
	types := []tensor.DType{tensor.F32, tensor.BF16, tensor.F16, tensor.F64, tensor.I32, tensor.I64, tensor.U8}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			each(t, mk, n, collective.Config{}, func(r *rank) error {
				for i, m := range lengths {
					for j, dt := range types {
						if n > 3 && j%2 == 1 && i%2 == 1 {
							continue
						}
						if n > 3 && m > 2000 && (i+j)%3 > 0 {
							continue // fewer large ones
						}
						if err := r.operation(dt, m, n); err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
}

func (r *rank) operation(dt tensor.DType, m, n int) error {
	me := r.Rank()
	src, dst := r.full(dt, m, me), r.tensor(dt, n*m)
	if err := r.g.AllGather(ctx, dst, src, "t"); err != nil {
		return err
	}
	if err := same("all_gather", dst, join(parts(dt, m, n))); err != nil {
		return err
	}
	dst = r.tensor(dt, n*m)
	mine := dst.Flat(me*m, (me+1)*m)
	copy(tensor.HostBytes(mine), values(dt, m, me))
	if err := r.g.AllGather(ctx, dst, mine, "in place"); err != nil {
		return err
	}
	if err := same("all_gather in place", dst, join(parts(dt, m, n))); err != nil {
		return err
	}
	src, dst = r.full(dt, n*m, me), r.tensor(dt, n*m)
	if err := errors.Join(r.g.AllToAll(ctx, dst, src, "t"), r.g.Barrier(ctx, "t")); err != nil {
		return err
	}
	if err := same("all_to_all", dst, join(chunks(parts(dt, n*m, n), me, n))); err != nil {
		return err
	}
	if dt == tensor.U8 {
		return nil
	}
	for _, op := range []collective.Op{collective.Sum, collective.Max} {
		b := r.full(dt, m, me)
		if err := r.g.AllReduce(ctx, b, op, "t"); err != nil {
			return err
		}
		if err := same("all_reduce "+op.String(), b, total(dt, m, n, op)); err != nil {
			return err
		}
	}
	return nil
}

// reduceScatter tests mixed types, accumulation and chunks in another order.
func reduceScatter(t *testing.T, mk maker) {
	pairs := [][2]tensor.DType{{tensor.F32, tensor.F32}, {tensor.F32, tensor.BF16}, {tensor.BF16, tensor.BF16}, {tensor.BF16, tensor.F32},
		{tensor.F32, tensor.F16}, {tensor.F16, tensor.F16}, {tensor.F16, tensor.F32},
		{tensor.F64, tensor.F64}, {tensor.I32, tensor.I32}, {tensor.I64, tensor.I64}}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			each(t, mk, n, collective.Config{}, func(r *rank) error {
				for _, m := range []int{0, 1, 7, 700, 5003} {
					for _, p := range pairs {
						for v := range 4 {
							if err := r.reduction(p[0], p[1], m, n, v&1 > 0, v&2 > 0); err != nil {
								return err
							}
						}
					}
				}
				return nil
			})
		})
	}
}

func (r *rank) reduction(dt, st tensor.DType, m, n int, accumulate, turned bool) error {
	me := r.Rank()
	o := collective.ReduceOptions{Accumulate: accumulate}
	chunk := me
	if turned {
		o.Chunks = make([]int, n)
		for i := range o.Chunks {
			o.Chunks[i] = (n - i) % n
		}
		chunk = o.Chunks[me]
	}
	dst, src := r.full(dt, m, 100+me), r.full(st, n*m, me)
	if err := r.g.ReduceScatter(ctx, dst, src, o, "t"); err != nil {
		return err
	}
	if err := same(fmt.Sprintf("reduce_scatter of %v, %+v", src, o), dst, reduced(dt, st, m, n, chunk, me, accumulate)); err != nil {
		return err
	}
	return same("reduce_scatter src", src, values(st, n*m, me))
}

func sequence(t *testing.T, mk maker) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			each(t, mk, n, collective.Config{}, func(r *rank) error {
				const count = 40
				var ts []*tensor.Tensor
				length := func(i int) int { return 1 + i*i*7%5000 }
				for i := range count {
					ts = append(ts, r.full(tensor.F32, length(i), r.Rank()))
				}
				for i, x := range ts {
					if err := r.g.AllReduce(ctx, x, collective.Sum, fmt.Sprint(i)); err != nil {
						return err
					}
				}
				for i, x := range ts {
					if err := same("all_reduce", x, total(tensor.F32, length(i), n, collective.Sum)); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func groups(t *testing.T, mk maker) {
	each(t, mk, 4, collective.Config{}, func(r *rank) error {
		var gs []collective.Group
		for i, ranks := range [][]int{{0, 1, 2, 3}, {0, 2, 3}, {1, 3}, {0, 1, 2, 3}, {2}} {
			g, err := r.Group(fmt.Sprint("g", i), ranks)
			if err != nil {
				return err
			}
			if g != nil {
				gs = append(gs, g)
			}
		}
		for _, m := range []int{5, 50000} {
			ended := make(chan error)
			for _, g := range gs {
				x := r.full(tensor.F32, m, g.Rank())
				go func() {
					time.Sleep(time.Duration((r.Rank()+int(g.Name()[1]))%3) * time.Millisecond)
					err := g.AllReduce(ctx, x, collective.Sum, "t")
					if err == nil {
						err = same(g.Name(), x, total(tensor.F32, m, g.Size(), collective.Sum))
					}
					ended <- err
				}()
			}
			var errs []error
			for range gs {
				errs = append(errs, <-ended)
			}
			if err := errors.Join(errs...); err != nil {
				return err
			}
		}
		return nil
	})
}

// mesh checks the members of groups that are rows and columns of a mesh.
func mesh(t *testing.T, mk maker) {
	for _, c := range [][2]int{{1, 1}, {1, 4}, {4, 1}, {2, 3}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			each(t, mk, c[0]*c[1], collective.Config{}, func(r *rank) error {
				line := func(first, n, stride int) (collective.Group, error) {
					ranks := make([]int, n)
					for i := range ranks {
						ranks[i] = first + i*stride
					}
					return r.Group("line", ranks)
				}
				var row, column collective.Group
				for i := range c[0] {
					if g, err := line(i*c[1], c[1], 1); err != nil {
						return err
					} else if g != nil {
						row = g
					}
				}
				for i := range c[1] {
					if g, err := line(i, c[0], c[1]); err != nil {
						return err
					} else if g != nil {
						column = g
					}
				}
				x, y := r.full(tensor.I32, 1, r.Rank()), r.tensor(tensor.I32, c[1])
				tensor.Host[int32](x)[0] = int32(r.Rank())
				if err := row.AllGather(ctx, y, x, "t"); err != nil {
					return err
				}
				for s, v := range tensor.Host[int32](y) {
					if int(v) != r.Rank()/c[1]*c[1]+s {
						return fmt.Errorf("the row of rank %d: %v", r.Rank(), tensor.Host[int32](y))
					}
				}
				z := r.tensor(tensor.I32, c[0])
				if err := errors.Join(column.AllGather(ctx, z, x, "t"), r.g.Barrier(ctx, "t")); err != nil {
					return err
				}
				for k, v := range tensor.Host[int32](z) {
					if int(v) != k*c[1]+r.Rank()%c[1] {
						return fmt.Errorf("the column of rank %d: %v", r.Rank(), tensor.Host[int32](z))
					}
				}
				return nil
			})
		})
	}
}

// messages sends along a ring from one goroutine and receives in another, besides collectives.
func messages(t *testing.T, mk maker) {
	for _, n := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			each(t, mk, n, collective.Config{}, func(r *rank) error {
				next, last := (r.Rank()+1)%n, (r.Rank()+n-1)%n
				for _, m := range []int{0, 10, 30000} {
					x, ended := r.full(tensor.F32, 10000, r.Rank()), make(chan error)
					var out, in []*tensor.Tensor
					for i := range 4 {
						out, in = append(out, r.full(tensor.BF16, m, r.Rank()*10+i)), append(in, r.tensor(tensor.BF16, m))
					}
					each := func(ts []*tensor.Tensor, op func(context.Context, *tensor.Tensor, int, string) error, other int) {
						var errs []error
						for i, t := range ts {
							errs = append(errs, op(ctx, t, other, fmt.Sprint(i)))
						}
						ended <- errors.Join(errs...)
					}
					go each(out, r.g.Send, next)
					go each(in, r.g.Recv, last)
					if err := errors.Join(r.g.AllReduce(ctx, x, collective.Sum, "concurrent"), <-ended, <-ended); err != nil {
						return err
					}
					for i, b := range in {
						if err := same("recv", b, values(tensor.BF16, m, last*10+i)); err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
}

// pipeline sends along the ranks and back, one goroutine per rank.
func pipeline(t *testing.T, mk maker) {
	const n = 4
	each(t, mk, n, collective.Config{}, func(r *rank) error {
		me := r.Rank()
		for _, m := range []int{10, 30000} {
			x := r.full(tensor.F32, m, 0)
			if me > 0 {
				x = r.tensor(tensor.F32, m)
				if err := r.g.Recv(ctx, x, me-1, "forward"); err != nil {
					return err
				}
			}
			if me < n-1 {
				if err := errors.Join(r.g.Send(ctx, x, me+1, "forward"), r.g.Recv(ctx, x, me+1, "backward")); err != nil {
					return err
				}
			}
			if me > 0 {
				if err := r.g.Send(ctx, x, me-1, "backward"); err != nil {
					return err
				}
			}
			if err := same("the returned tensor", x, values(tensor.F32, m, 0)); err != nil {
				return err
			}
		}
		return nil
	})
}
