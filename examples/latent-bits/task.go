package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// The alphabet: 26 letters, then these.
const (
	blank  = 26 + iota // _
	noise              // !
	prompt             // >
	vocabulary
)

const (
	length    = 64 // of the text after the prompt
	runLength = 8  // repetitions of the letter
)

// sample is one text of the task: the prompt "a>", then blanks with one run of the letter, each
// character replaced by noise with probability 1/16.
type sample struct {
	letter, start int // the letter and the start of its run
	noisy         [length]bool
	ids           []int32 // prompt and text
}

func draw(r *rand.Rand) sample {
	s := sample{letter: r.IntN(26), start: r.IntN(length - runLength + 1)}
	s.ids = []int32{int32(s.letter), prompt}
	for i := range length {
		id := int32(blank)
		if i >= s.start && i < s.start+runLength {
			id = int32(s.letter)
		}
		if r.IntN(16) == 0 {
			id, s.noisy[i] = noise, true
		}
		s.ids = append(s.ids, id)
	}
	return s
}

// with returns the same text with another letter.
func (s sample) with(letter int) sample {
	ids := slices.Clone(s.ids)
	for i, id := range ids {
		if int(id) == s.letter {
			ids[i] = int32(letter)
		}
	}
	s.letter, s.ids = letter, ids
	return s
}

// nats is the uncertainty about a text: the position of the run, the noise, the letter.
type nats struct{ position, noise, letter float64 }

// unknown is the entropy of a text given its prompt.
var unknown = nats{position: math.Log(length - runLength + 1), noise: -length * (math.Log(1./16)/16 + math.Log(15./16)*15/16)}

// cost returns the cross-entropy of character i under logits [vocabulary], in parts.
func (s sample) cost(logits []float32, i int) (k nats) {
	var all, letters float64
	weigh := func(id int32) float64 { return math.Exp(float64(logits[id])) }
	for id := range int32(vocabulary) {
		if all += weigh(id); id < blank {
			letters += weigh(id)
		}
	}
	clean := all - weigh(noise)
	switch id := s.ids[2+i]; {
	case id == noise:
		k.noise = math.Log(all / weigh(noise))
	case id == blank:
		k.noise, k.position = math.Log(all/clean), math.Log(clean/weigh(blank))
	default:
		k.noise, k.position, k.letter = math.Log(all/clean), math.Log(clean/letters), math.Log(letters/weigh(id))
	}
	return k
}

// write writes n tokenized samples.
func write(w io.Writer, n int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0))
	for range n {
		s := draw(r)
		if _, err := fmt.Fprintf(w, "{\"input_ids\": [%s]}\n", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(s.ids)), ","), "[]")); err != nil {
			return err
		}
	}
	return nil
}

func show(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteByte("abcdefghijklmnopqrstuvwxyz_!>"[id])
	}
	return b.String()
}

// agreement compares a generated text with the text of its bits.
type agreement struct {
	position float64 // 1 if the runs start at the same position
	near     float64 // 1 if they start within 4 positions
	noise    float64 // share of the noise that is kept
	prompted float64 // share of the prompted letter in its run
}

// compare compares text (after the prompt), generated for letter with the bits of s.
func compare(s sample, letter int, text []int32) agreement {
	var a agreement
	there := 0.0
	for i, id := range text {
		if s.noisy[i] {
			there++
			if id == noise {
				a.noise++
			}
		}
	}
	a.noise /= max(1, there)
	best, at := -1, 0
	for p := 0; p+runLength <= length; p++ {
		n := 0
		for _, id := range text[p : p+runLength] {
			if id < blank {
				n++
			}
		}
		if n > best {
			best, at = n, p
		}
	}
	if best > runLength/2 && at == s.start {
		a.position = 1
	}
	if best > runLength/2 && max(at-s.start, s.start-at) <= runLength/2 {
		a.near = 1
	}
	for _, id := range text[at : at+runLength] {
		if int(id) == letter {
			a.prompted++
		}
	}
	if best > 0 {
		a.prompted /= float64(best)
	}
	return a
}
