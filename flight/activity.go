package flight

import "time"

// Activity is the kind of a rank's work.
type Activity uint8

// The activities.
const (
	None       Activity = iota
	Joining             // waits for other ranks to join
	Loading             // waits for a batch; the detail is the row's file
	Tokenizing          // the detail is the file
	Forward             // computes a unit
	Backward
	Updating // the optimizer
	Compiling
	Waiting // for a collective; the ring has which
	Saving
	LoadingWeights // of a checkpoint or a model
	Evaluating
	Exporting
	Preparing // the data, the model, the device
	Computing // waits for the device
	numActivities
)

var activityNames = [numActivities]string{
	"none", "joining", "loading data", "tokenizing", "forward", "backward", "optimizer update", "compiling", "waiting",
	"saving a checkpoint", "loading weights", "evaluating", "exporting", "preparing", "computing",
}

func (a Activity) String() string {
	if a >= numActivities {
		return "unknown"
	}
	return activityNames[a]
}

// computes reports whether an activity may use the processor for long without a Tick.
func (a Activity) computes() bool {
	switch a {
	case Forward, Backward, Updating, Compiling, Tokenizing, Preparing, Computing:
		return true
	}
	return false
}

// Enter records that the rank starts an activity inside the current one, if any. Leave ends it:
//
//	defer rec.Leave(rec.Enter(flight.Saving, "step-12"))
func (r *Recorder) Enter(a Activity, detail string) (outer int) {
	if r == nil {
		return 0
	}
	outer = r.depth
	r.depth++
	r.setLevel(outer, a, detail)
	if r.onEnter != nil {
		r.onEnter(a, detail)
	}
	return outer
}

// OnEnter sets a function that Enter and Unit call after they have recorded an activity: a fault point for tests.
func (r *Recorder) OnEnter(f func(a Activity, detail string)) { r.onEnter = f }

// tail returns the end of a long detail: the file of a path.
func tail(detail string) string { return detail[max(0, len(detail)-detailBytes):] }

// Leave ends the activities since Enter returned outer.
func (r *Recorder) Leave(outer int) {
	if r == nil {
		return
	}
	r.depth = outer
	r.words().set(wDepth, uint64(min(outer, maxDepth)))
	r.Tick()
}

// Detail replaces the detail of the current activity.
func (r *Recorder) Detail(detail string) {
	if r == nil || r.depth == 0 || r.depth > maxDepth {
		return
	}
	at := r.level(r.depth - 1)
	if detail = tail(detail); r.words().string(at+lDetail, detailBytes) == detail {
		return
	}
	r.words().add(wActivities, 1)
	r.words().setString(at+lDetail, detailBytes, detail)
	r.words().add(wActivities, 1)
	r.Tick()
}

// Unit records that the rank computes a unit: it replaces the unit before, and Leave of an outer activity ends
// it.
func (r *Recorder) Unit(a Activity, name string) {
	if r == nil {
		return
	}
	if n := r.depth; n > 0 && n <= maxDepth {
		switch Activity(r.words().get(r.level(n-1) + lKind)) {
		case Forward, Backward, Updating:
			r.depth--
		}
	}
	r.Enter(a, name)
}

func (r *Recorder) level(i int) int { return wLevels + i*levelWords }

func (r *Recorder) setLevel(i int, a Activity, detail string) {
	now := uint64(time.Now().UnixNano())
	if i < maxDepth {
		at := r.level(i)
		r.words().add(wActivities, 1)
		r.words().set(at+lKind, uint64(a))
		r.words().set(at+lSince, now)
		r.words().setString(at+lDetail, detailBytes, tail(detail))
		r.words().set(wDepth, uint64(i+1))
		r.words().add(wActivities, 1)
	}
	r.tick(now)
}
