package collective_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"trireme/collective"
	"trireme/tensor"
)

// unbuffered is a transport whose Write blocks until the peer reads.
type unbuffered struct {
	failure *collective.FailureOnce
	me      int
	streams [][][]chan []byte // from, to, stream
}

const stripes = 2

func (u *unbuffered) Join(int, string, []int, int) (collective.Links, error) {
	return collective.Links{Messages: u}, nil
}
func (u *unbuffered) Arena() *tensor.Arena              { return nil }
func (u *unbuffered) Describe(rank int) string          { return fmt.Sprint("rank ", rank) }
func (u *unbuffered) Closed(int) bool                   { return false }
func (u *unbuffered) Failure() *collective.FailureOnce  { return u.failure }
func (u *unbuffered) SendFailure(f *collective.Failure) {}
func (u *unbuffered) Close() error                      { return nil }
func (u *unbuffered) Stripes() int                      { return stripes }
func (u *unbuffered) Reached(uint64)                    {}
func (u *unbuffered) Joined(rank int, seq uint64) bool  { return true }
func (u *unbuffered) Write(to, stream int, label, b []byte) error {
	select {
	case u.streams[u.me][to][stream] <- append([]byte(string(label)), b...):
		return nil
	case <-u.failure.Done():
		return u.failure.Get()
	}
}

func (u *unbuffered) Read(from, stream int, label, b []byte) (int, error) {
	select {
	case m := <-u.streams[from][u.me][stream]:
		if string(m[:len(label)]) != string(label) || len(m)-len(label) > len(b) {
			return 0, fmt.Errorf("another message than expected")
		}
		return copy(b, m[len(label):]), nil
	case <-u.failure.Done():
		return 0, u.failure.Get()
	}
}

// Large operations between hosts do not depend on buffers of the network: ranks read in the order in which the others
// write.
func TestDirectWithoutBuffers(t *testing.T) {
	const elems = 5 << 20 / 4 // more than the window of an AllReduce
	for n := 2; n <= 5; n++ {
		t.Run(fmt.Sprint(n, " ranks"), func(t *testing.T) {
			streams := make([][][]chan []byte, n)
			for i := range streams {
				streams[i] = make([][]chan []byte, n)
				for j := range streams[i] {
					for range 3 * stripes {
						streams[i][j] = append(streams[i][j], make(chan []byte))
					}
				}
			}
			failure := collective.NewFailureOnce()
			late := time.AfterFunc(30*time.Second, func() {
				failure.Set(&collective.Failure{Kind: collective.ErrTimeout, Text: "the ranks wait for each other"})
			})
			defer late.Stop()
			ranks := make([]int, n)
			for r := range ranks {
				ranks[r] = r
			}
			var wg sync.WaitGroup
			for me := range n {
				wg.Go(func() {
					w, err := collective.NewWorld(me, n, &unbuffered{failure, me, streams}, collective.Config{})
					if err != nil {
						t.Error(err)
						return
					}
					g, err := w.Group("all", ranks)
					if err != nil {
						t.Error(err)
						return
					}
					exchange(t, g, elems/n*n)
				})
			}
			wg.Wait()
		})
	}
}

func exchange(t *testing.T, g collective.Group, elems int) {
	ctx, n, me := t.Context(), g.Size(), g.Rank()
	vector := func(elems int, f func(i int) float32) *tensor.Tensor {
		x := tensor.Of(tensor.NewBuffer(make([]byte, 4*elems), 4*elems, tensor.Workspace, nil), tensor.F32, 0, elems)
		for i := range elems {
			tensor.Host[float32](x)[i] = f(i)
		}
		return x
	}
	check := func(op string, x *tensor.Tensor, err error, want func(i int) float32) {
		if err != nil {
			t.Errorf("rank %d: %s: %v", me, op, err)
			return
		}
		for i, v := range tensor.Host[float32](x) {
			if v != want(i) {
				t.Errorf("rank %d: %s: element %d is %v, not %v", me, op, i, v, want(i))
				return
			}
		}
	}
	part := elems / n
	of := func(rank int) func(i int) float32 { return func(i int) float32 { return float32(i%1000 + rank) } }
	sum := func(i int) float32 { return float32(i%1000*n + n*(n-1)/2) }
	zero := func(int) float32 { return 0 }

	x := vector(elems, of(me))
	check("AllReduce", x, g.AllReduce(ctx, x, collective.Sum, "test"), sum)
	x, y := vector(elems, of(me)), vector(part, zero)
	check("ReduceScatter", y, g.ReduceScatter(ctx, y, x, collective.ReduceOptions{}, "test"), func(i int) float32 { return sum(me*part + i) })
	x, y = vector(elems, zero), vector(part, of(me))
	check("AllGather", x, g.AllGather(ctx, x, y, "test"), func(i int) float32 { return of(i / part)(i % part) })
	x, y = vector(elems, of(me)), vector(elems, zero)
	check("AllToAll", y, g.AllToAll(ctx, y, x, "test"), func(i int) float32 { return of(i / part)(me*part + i%part) })
}
