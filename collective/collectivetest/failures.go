package collectivetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/collective"
	"trireme/tensor"
)

// failures checks that every rank gets an error of the right kind and content.
func failures(t *testing.T, mk maker) {
	t.Run("mismatch", func(t *testing.T) { mismatch(t, mk) })
	t.Run("absent", func(t *testing.T) { absent(t, mk) })
	t.Run("abort", func(t *testing.T) { abort(t, mk) })
	t.Run("context", func(t *testing.T) { contexts(t, mk) })
	t.Run("interrupted", func(t *testing.T) { interrupted(t, mk) })
	t.Run("two goroutines", func(t *testing.T) { two(t, mk) })
	t.Run("slow", func(t *testing.T) { slow(t, mk) })
	t.Run("left", func(t *testing.T) { left(t, mk) })
	t.Run("closed", func(t *testing.T) { closed(t, mk) })
	t.Run("different groups", func(t *testing.T) { different(t, mk) })
	t.Run("group", func(t *testing.T) {
		each(t, mk, 2, collective.Config{}, func(r *rank) error {
			for _, ranks := range [][]int{{}, {1, 0}, {0, 2}, {-1, 0}, {0, 0}} {
				if _, err := r.Group("bad", ranks); err == nil {
					return fmt.Errorf("a group of ranks %v was formed", ranks)
				}
			}
			return nil
		})
	})
}

// expect checks that err is of a kind and contains all words.
func expect(err, kind error, words ...string) error {
	if !errors.Is(err, kind) {
		return fmt.Errorf("error %v, want %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			return fmt.Errorf("error %q does not contain %q", err, w)
		}
	}
	return nil
}

// mismatch has one rank of three call another operation, and checks that nothing is written.
func mismatch(t *testing.T, mk maker) {
	cases := map[string]struct {
		issue func(r *rank, x *tensor.Tensor, odd bool) error
		words []string
	}{
		"operation": {func(r *rank, x *tensor.Tensor, odd bool) error {
			if odd {
				return r.g.AllGather(ctx, r.tensor(x.DType(), 3*x.Elems()), x, "b")
			}
			return r.g.AllReduce(ctx, x, collective.Sum, "a")
		}, []string{"all_gather #0", "all_reduce #0", "operation differs"}},
		"count": {func(r *rank, x *tensor.Tensor, odd bool) error {
			if odd {
				x = x.Flat(0, 20)
			}
			return r.g.AllReduce(ctx, x, collective.Sum, "a")
		}, []string{"count differs", "of 20 float32"}},
		"type": {func(r *rank, x *tensor.Tensor, odd bool) error {
			if odd {
				x = r.full(tensor.I32, x.Elems(), 0)
			}
			return r.g.AllReduce(ctx, x, collective.Sum, "a")
		}, []string{"element type differs"}},
		"reduction": {func(r *rank, x *tensor.Tensor, odd bool) error {
			if odd {
				return r.g.AllReduce(ctx, x, collective.Max, "a")
			}
			return r.g.AllReduce(ctx, x, collective.Sum, "a")
		}, []string{"reduction differs", "all_reduce(max)"}},
		"tag": {func(r *rank, x *tensor.Tensor, odd bool) error {
			return r.g.AllReduce(ctx, x, collective.Sum, fmt.Sprintf("layer %v", odd))
		}, []string{"tag differs", "layer true", "layer false"}},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) { // in the same order in all processes
		c := cases[name]
		for _, m := range []int{100, 30000} {
			t.Run(fmt.Sprint(name, " ", m), func(t *testing.T) {
				each(t, mk, 3, collective.Config{Timeout: 20 * time.Second}, func(r *rank) error {
					x := r.full(tensor.F32, m, r.Rank())
					err := c.issue(r, x, r.Rank() == 1)
					if e := expect(err, collective.ErrMismatch, append(c.words, "rank 1")...); e != nil {
						return e
					}
					if e := same("tensor after a mismatch", x, values(tensor.F32, m, r.Rank())); e != nil {
						return e
					}
					return expect(r.g.Barrier(ctx, "after"), collective.ErrMismatch)
				})
			})
		}
	}
}

// absent has one rank come late: the error of all ranks, that one too, names it.
func absent(t *testing.T, mk maker) {
	for _, m := range []int{10, 30000} {
		each(t, mk, 3, collective.Config{Timeout: 300 * time.Millisecond}, func(r *rank) error {
			if err := r.g.Barrier(ctx, "before"); err != nil {
				return err
			}
			if r.Rank() == 1 {
				time.Sleep(900 * time.Millisecond)
			}
			begin := time.Now()
			err := r.g.AllReduce(ctx, r.full(tensor.F32, m, 0), collective.Sum, "layer 7")
			if time.Since(begin) > 5*time.Second {
				return errors.New("the time-out was too late")
			}
			return expect(err, collective.ErrTimeout, "all_reduce #1", "layer 7", "in group all", "; rank 1", "did not join")
		})
	}
}

func abort(t *testing.T, mk maker) {
	cause := errors.New("the loss is a parrot")
	for _, m := range []int{10, 30000} {
		each(t, mk, 3, collective.Config{}, func(r *rank) error {
			if r.Rank() == 2 {
				time.Sleep(20 * time.Millisecond)
				r.Abort(cause)
				r.Abort(errors.New("a second cause"))
				err := r.g.Barrier(ctx, "own")
				if !errors.Is(err, cause) {
					return fmt.Errorf("%v does not wrap the cause", err)
				}
				return expect(err, collective.ErrAborted)
			}
			begin := time.Now()
			x := r.full(tensor.F32, m, 0)
			for _, op := range []func() error{
				func() error { return r.g.AllReduce(ctx, x, collective.Sum, "a") },
				func() error { return r.g.Barrier(ctx, "b") },
			} {
				if err := expect(op(), collective.ErrAborted, "aborted by rank 2", cause.Error()); err != nil {
					return err
				}
			}
			if time.Since(begin) > time.Second {
				return errors.New("abort took too long")
			}
			return expect(r.g.Barrier(ctx, "after"), collective.ErrAborted, "rank 2")
		})
	}
}

// contexts checks that an operation ends with its context, that its rank then leaves the world, and that
// the others get an error.
func contexts(t *testing.T, mk maker) {
	for _, m := range []int{10, 30000} {
		each(t, mk, 2, collective.Config{}, func(r *rank) error {
			if r.Rank() == 1 {
				r.meet()
				if err := r.g.Barrier(ctx, "a"); !errors.Is(err, collective.ErrMismatch) && !errors.Is(err, collective.ErrAborted) {
					return fmt.Errorf("the other rank's operation ended with %v", err)
				}
				return nil
			}
			defer r.Abort(errors.New("the plug is pulled"))
			defer r.meet()
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := r.g.AllReduce(short, r.full(tensor.F32, m, r.Rank()), collective.Sum, "a")
			var f *collective.Failure
			if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &f) || !strings.Contains(err.Error(), "all_reduce #0") {
				return fmt.Errorf("error %v, want the context's", err)
			}
			if time.Since(began) > 10*time.Second {
				return errors.New("the context was ignored")
			}
			return expect(r.g.Barrier(ctx, "after"), context.DeadlineExceeded, "all_reduce #0")
		})
	}
}

// interrupted checks that the others wait for a rank whose context ended until it aborts.
func interrupted(t *testing.T, mk maker) {
	cause := errors.New("the plug is pulled")
	for _, m := range []int{10, 30000} {
		each(t, mk, 3, collective.Config{}, func(r *rank) error {
			x := r.full(tensor.F32, m, r.Rank())
			if r.Rank() != 1 {
				return expect(r.g.AllReduce(ctx, x, collective.Sum, "a"), collective.ErrAborted, "aborted by rank 1", cause.Error())
			}
			gone, cancel := context.WithCancel(ctx)
			cancel()
			if err := r.g.Recv(gone, x, 0, "never"); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("error %v, want the context's", err)
			}
			time.Sleep(100 * time.Millisecond) // the others wait
			r.Abort(cause)
			return nil
		})
	}
}

func slow(t *testing.T, mk maker) {
	each(t, mk, 3, collective.Config{Timeout: 10 * time.Second}, func(r *rank) error {
		for i := range 3 {
			if r.Rank() == i {
				time.Sleep(50 * time.Millisecond)
			}
			x := r.full(tensor.F32, 5000*i, r.Rank())
			if err := r.g.AllReduce(ctx, x, collective.Sum, "a"); err != nil {
				return err
			}
			if err := same("all_reduce", x, total(tensor.F32, 5000*i, 3, collective.Sum)); err != nil {
				return err
			}
		}
		return nil
	})
}

func left(t *testing.T, mk maker) {
	each(t, mk, 2, collective.Config{}, func(r *rank) error {
		x := r.full(tensor.F32, 30000, r.Rank())
		if r.Rank() == 1 {
			received := make(chan error)
			go func() { received <- r.g.Recv(ctx, x, 0, "never") }()
			time.Sleep(20 * time.Millisecond)
			if err := r.Close(); err != nil {
				return err
			}
			return expect(<-received, collective.ErrClosed)
		}
		return expect(r.g.AllReduce(ctx, x, collective.Sum, "a"), collective.ErrClosed, "rank 1")
	})
}

func two(t *testing.T, mk maker) {
	each(t, mk, 2, collective.Config{}, func(r *rank) error {
		if r.Rank() == 1 {
			return expect(r.g.Recv(ctx, r.tensor(tensor.F32, 1), 0, "a"), collective.ErrAborted)
		}
		said := make(chan string)
		for range 2 {
			go func() {
				defer func() {
					if p := recover(); p != nil {
						said <- fmt.Sprint(p)
					}
				}()
				said <- r.g.Barrier(ctx, "a").Error()
			}()
		}
		first := <-said // the other goroutine waits for rank 1
		r.Abort(errors.New("enough"))
		if second := <-said; !strings.Contains(first, "another goroutine") || !strings.Contains(second, "enough") {
			return fmt.Errorf("two concurrent barriers end with %q and %q", first, second)
		}
		return nil
	})
}

func closed(t *testing.T, mk maker) {
	each(t, mk, 2, collective.Config{}, func(r *rank) error {
		if err := r.g.Barrier(ctx, "last"); err != nil || r.Rank() == 1 {
			return errors.Join(err, r.closeIf(1))
		}
		return expect(r.g.Barrier(ctx, "one too many"), collective.ErrClosed, "rank 1", "closed")
	})
}

func (r *rank) closeIf(who int) error {
	if r.Rank() == who {
		return r.Close()
	}
	return nil
}

func different(t *testing.T, mk maker) {
	each(t, mk, 3, collective.Config{Timeout: time.Second}, func(r *rank) error {
		ranks := []int{0, 1, 2}
		if r.Rank() == 2 {
			ranks = []int{1, 2}
		}
		g, err := r.Group("second", ranks)
		if err != nil {
			return nil // forming a group may need the others
		}
		return mustFail(g.Barrier(ctx, "t"))
	})
}

func mustFail(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return nil
}
