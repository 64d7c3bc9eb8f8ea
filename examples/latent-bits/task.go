package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// The alphabet: 26 letters, and then these.
const (
	blank  = 26 + iota // _
	noise              // !
	prompt             // >
	vocabulary
)

const (
	length = 64 // of the text after the prompt
	run    = 8  // how often the letter is repeated in it
)

// sample is one text of the task: the prompt "a>", and then blanks with one run of the letter,
// each character replaced by noise with probability 1/16.
type sample struct {
	letter, at int // the letter, and where its run begins
	noisy      [length]bool
	ids        []int32 // prompt and text
}

func draw(r *rand.Rand) sample {
	s := sample{letter: r.IntN(26), at: r.IntN(length - run + 1)}
	s.ids = []int32{int32(s.letter), prompt}
	for i := range length {
		id := int32(blank)
		if i >= s.at && i < s.at+run {
			id = int32(s.letter)
		}
		if r.IntN(16) == 0 {
			id, s.noisy[i] = noise, true
		}
		s.ids = append(s.ids, id)
	}
	return s
}

// with is the same text with another letter.
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

// nats are what is not known of a text: where the run begins, which characters are noise, which
// letter is repeated.
type nats struct{ place, noise, letter float64 }

// unknown is what nobody can know of a text that the prompt alone tells of.
var unknown = nats{place: math.Log(length - run + 1), noise: -length * (math.Log(1./16)/16 + math.Log(15./16)*15/16)}

// cost is what character i of the text costs under logits [vocabulary].
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
		k.noise, k.place = math.Log(all/clean), math.Log(clean/weigh(blank))
	default:
		k.noise, k.place, k.letter = math.Log(all/clean), math.Log(clean/letters), math.Log(letters/weigh(id))
	}
	return k
}

// write makes a file of n samples, tokenized.
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

// agreement says what a text, made with another's bits, has of that other's.
type agreement struct {
	position float64 // 1 if its run lies where the other's does
	near     float64 // 1 if it lies at most 4 places from there
	noise    float64 // of the other's noise, how much is noise here too
	own      float64 // of its run's letters, how many are the letter that was asked for
}

// compare looks at text (after the prompt), which was asked for letter and given s's bits.
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
	for p := 0; p+run <= length; p++ {
		n := 0
		for _, id := range text[p : p+run] {
			if id < blank {
				n++
			}
		}
		if n > best {
			best, at = n, p
		}
	}
	if best > run/2 && at == s.at {
		a.position = 1
	}
	if best > run/2 && max(at-s.at, s.at-at) <= run/2 {
		a.near = 1
	}
	for _, id := range text[at : at+run] {
		if int(id) == letter {
			a.own++
		}
	}
	if best > 0 {
		a.own /= float64(best)
	}
	return a
}
