package generate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"trireme/collective"
	"trireme/internal/backend/record"
	"trireme/model"
	"trireme/tensor"
)

// compiling records programs and replays the first program of the same text.
type compiling struct {
	*record.Backend
	programs map[string]*record.Program
}

func (c *compiling) Compile(last bool, f func() error) error {
	rec, err := c.Record(last, f)
	if err != nil {
		return err
	}
	text := rec.String()
	if c.programs[text] == nil {
		c.programs[text] = rec.Program
	}
	return c.Replay(context.Background(), c.programs[text], rec)
}

// A compiling backend decodes 40 tokens with two programs, and the bits of direct execution. Prompts
// of a bucket share them, as do texts that outgrow the model's positions.
func TestPrograms(t *testing.T) {
	for name, config := range configs {
		for i, positions := range []string{"20", "64", "64"} {
			dt, cached := []tensor.DType{tensor.F32, tensor.BF16, tensor.F32}[i], []tensor.DType{tensor.F32, tensor.BF16, tensor.U8}[i]
			t.Run(fmt.Sprint(name, " of ", positions, " in ", dt, " and ", cached), func(t *testing.T) {
				config := strings.NewReplacer(`_embeddings": 20`, `_embeddings": `+positions, `n_positions": 20`, `n_positions": `+positions).Replace(config)
				cpu, direct := open(t, config, dt)
				c := &compiling{programs: map[string]*record.Program{}}
				_, compiled := openOn(t, config, dt, func(b tensor.Backend, w collective.World) (tensor.Backend, collective.World) {
					c.Backend = record.New(b)
					return c, c.World(w)
				})
				before := c.Meter().Read().LiveTotal
				for _, prompt := range [][]int32{{7, 3, 49, 0, 7, 12}, {5}, {1, 2, 3, 4, 5, 6, 7, 8}} {
					if cached != dt && len(prompt) == 1 {
						continue // as a row of its own it attends to its rounded key and value, in a bucket to those before
					}
					limit := direct.Info().MaxPositions
					decoders := [2]*decoder{}
					for i, m := range []model.Model{direct, compiled} {
						decoders[i] = newDecoder([]tensor.Backend{cpu, c}[i], m, dt, cached, min(limit, len(prompt)+40), limit, 9)
					}
					ids := slices.Clone(prompt)
					for range 40 {
						var logits [2][]float32
						for i, r := range decoders {
							var err error
							if logits[i], err = r.logits(ids); err != nil {
								t.Fatal(err)
							}
						}
						if !slices.Equal(logits[0], logits[1]) {
							t.Fatalf("after %d tokens: logits %v, want %v", len(ids), logits[1], logits[0])
						}
						ids = append(ids, largest(logits[0]))
					}
					for _, r := range decoders {
						r.close()
					}
				}
				if len(c.programs) != 2 {
					t.Errorf("%d programs, want 2", len(c.programs))
				}
				if live := c.Meter().Read().LiveTotal; live != before {
					t.Errorf("%d bytes are held", live-before)
				}
			})
		}
	}
}
