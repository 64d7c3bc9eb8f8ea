package monitor

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// readEvents decodes an event file to one list of fields per message.
func readEvents(t *testing.T, path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		if maskedCRC(b[:8]) != binary.LittleEndian.Uint32(b[8:]) {
			t.Fatal("the length's checksum is wrong")
		}
		p := b[12 : 12+n]
		if maskedCRC(p) != binary.LittleEndian.Uint32(b[12+n:]) {
			t.Fatal("the payload's checksum is wrong")
		}
		b = b[16+n:]
		out = append(out, fields(t, p, "event"))
	}
	return out
}

func fields(t *testing.T, b []byte, message string) string {
	s := ""
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		switch typ {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			s, b = s+fmt.Sprintf("%d=%d ", num, v), b[n:]
		case protowire.Fixed64Type:
			v, n := protowire.ConsumeFixed64(b)
			s, b = s+fmt.Sprintf("%d=%.1f ", num, math.Float64frombits(v)), b[n:]
		case protowire.Fixed32Type:
			v, n := protowire.ConsumeFixed32(b)
			s, b = s+fmt.Sprintf("%d=%g ", num, math.Float32frombits(v)), b[n:]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			b = b[n:]
			inner := map[string]string{"event/5": "summary", "summary/1": "value", "event/7": "session"}[fmt.Sprintf("%s/%d", message, num)]
			if inner == "" {
				s += fmt.Sprintf("%d=%q ", num, v)
			} else {
				s += fmt.Sprintf("%d={%s} ", num, fields(t, v, inner))
			}
		default:
			t.Fatal("type", typ)
		}
	}
	return s
}

func TestTensorBoard(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tb")
	tb, err := OpenTensorBoard(dir, 6)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1000, 5e8)
	tb.Record(Record{Step: 7, Time: at, Loss: 2.5, LR: 0.25, GradNorm: math.Inf(1), WorldSize: 1, Samples: 2, Tokens: 16, LabelTokens: 8, StepSeconds: 1, Memory: map[string]int64{"parameters": 1 << 20}})
	tb.Evaluate(Evaluation{Step: 7, Time: at})
	if err := tb.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTensorBoard(dir, 0); err != nil { // a file of its own in the same second
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if len(files) != 2 {
		t.Fatal(files)
	}
	got := readEvents(t, files[0])
	got[0], got[1] = got[0][len(got[0])-18:], got[1][len(got[1])-13:]
	want := []string{
		`3="brain.Event:2" `, `2=7 7={1=1 } `,
		`1=1000.5 2=7 5={1={1="train/loss" 2=2.5 } 1={1="train/learning_rate" 2=0.25 } 1={1="train/grad_norm" 2=+Inf } 1={1="time/step_seconds" 2=1 } 1={1="time/samples_per_second" 2=2 } 1={1="time/tokens_per_second" 2=16 } 1={1="time/label_tokens_per_second" 2=8 } 1={1="time/data_fraction" 2=0 } 1={1="memory/parameters" 2=1.048576e+06 } } `,
		`1=1000.5 2=7 5={1={1="eval/loss" 2=0 } 1={1="eval/perplexity" 2=1 } } `,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("\n%q\n%q", got, want)
	}
}

// The mask of the published crc32c check value ("123456789": 0xe3069283).
func TestMaskedCRC(t *testing.T) {
	c := uint32(0xe3069283)
	if got, want := maskedCRC([]byte("123456789")), (c>>15|c<<17)+0xa282ead8; got != want {
		t.Errorf("%#x, not %#x", got, want)
	}
}
