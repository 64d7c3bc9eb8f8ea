package objectstoretest

import "net/http"

// Kind is a kind of failure.
type Kind int

// The kinds of failures.
const (
	None      Kind = iota
	CutBefore      // the connection is cut, and the request not executed
	CutAfter       // the request is executed, and the connection cut before the answer
	CutBody        // half of the answer's body arrives
	Busy           // 503 SlowDown
	Internal       // 500
	Conflict       // 409, as of two writes at once
	Damaged        // 400 BadDigest, as if bytes had changed on their way
	WrongSum       // the checksum in the answer is another one
	Twice          // the request is executed twice, as after a proxy's repetition; the second answer arrives
	Hang           // the request is executed, no answer arrives
	Denied         // 403
)

// Transient lists the kinds that a client survives by repeating the request.
var Transient = []Kind{CutBefore, CutAfter, CutBody, Busy, Internal, Conflict, Damaged, WrongSum, Twice}

func (k Kind) String() string {
	return [...]string{"none", "cut before", "cut after", "cut body", "503", "500", "409", "damaged", "wrong checksum", "twice", "hang", "403"}[k]
}

// Failure says which requests fail: number From, counted from 1 over those of the method, and the following ones up to
// To; 0 is all.
type Failure struct {
	Kind     Kind
	From, To int
	Method   string // "" is any

	seen int
}

// Fail sets the failures of later requests, counted from here.
func (s *Server) Fail(fs ...Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures, s.requests = fs, 0
}

func (s *Server) failing(method string) Kind {
	for i := range s.failures {
		f := &s.failures[i]
		if f.Method != "" && f.Method != method {
			continue
		}
		if f.seen++; f.seen >= f.From && (f.To == 0 || f.seen <= f.To) {
			return f.Kind
		}
	}
	return None
}

// After calls f once, after n further answers to requests of a method, before the last of them is sent.
func (s *Server) After(method string, n int, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after[method] = &event{n, f}
}

// event is a call after n answers.
type event struct {
	n int
	f func()
}

// answered counts an answer.
func (s *Server) answered(method string, a *answer) {
	s.mu.Lock()
	if a.status < 300 && method == http.MethodGet && a.length >= 0 {
		s.bytes += int64(len(a.body))
	}
	e := s.after[method]
	if e != nil {
		if e.n--; e.n == 0 {
			delete(s.after, method)
		} else {
			e = nil
		}
	}
	s.mu.Unlock()
	if e != nil {
		e.f()
	}
}
