package parallel

import "time"

// RankTimes are the times of one rank in the period from the last all-reduce of the step before to that of a step,
// without Engine.Pause.
type RankTimes struct {
	Own  time.Duration // without waits for communication: data, computation, files
	Data time.Duration // of Own, the wait for its batch
	Comm time.Duration // waits for communication
	Save time.Duration // own time of checkpoints while paused
}

// MaxRankTimes is the number of ranks above which RankTimes have Own only: all of them should fit the all-reduce at
// the end of the step.
const MaxRankTimes = 64

// rankWords is the number of words for each of n ranks.
func rankWords(n int) int {
	if n > MaxRankTimes {
		return 1
	}
	return 4
}

// put stores t as the words of a rank among those of n ranks.
func (t RankTimes) put(words []int64, rank, n int) {
	mine := [...]int64{int64(t.Own), int64(t.Data), int64(t.Comm), int64(t.Save)}
	copy(words[rank*rankWords(n):], mine[:rankWords(n)])
}

// rankTimes reads the words of n ranks.
func rankTimes(words []int64, n int) []RankTimes {
	all := make([]RankTimes, n)
	for r := range all {
		var t [4]int64
		copy(t[:rankWords(n)], words[r*rankWords(n):])
		all[r] = RankTimes{time.Duration(t[0]), time.Duration(t[1]), time.Duration(t[2]), time.Duration(t[3])}
	}
	return all
}

// period is this rank's time since the last all-reduce.
type period struct {
	began              time.Time // zero: before the first step
	waited, data, save time.Duration
	paused             time.Time
	waitedBefore       time.Duration // waited when it was paused
}

// end ends the period and starts the next one.
func (p *period) end() RankTimes {
	now := time.Now()
	t := RankTimes{Own: max(0, now.Sub(p.began)-p.waited), Data: p.data, Comm: p.waited, Save: p.save}
	*p = period{began: now}
	return t
}

// Pause excludes the time until Resume from this rank's times: work between steps.
func (e *Engine) Pause() {
	e.period.paused, e.period.waitedBefore = time.Now(), e.period.waited
}

// Resume ends a pause. Call it before each step; before the first one it starts the rank's time.
func (e *Engine) Resume() {
	p := &e.period
	switch {
	case p.began.IsZero():
		p.began = time.Now()
	case !p.paused.IsZero():
		p.began = p.began.Add(time.Since(p.paused))
		p.waited, p.paused = p.waitedBefore, time.Time{}
	}
}

// CountData adds a wait for this rank's batch to its times.
func (e *Engine) CountData(waited time.Duration) { e.period.data += waited }

// CountSave adds this rank's own time of a checkpoint to its times.
func (e *Engine) CountSave(own time.Duration) { e.period.save += own }
