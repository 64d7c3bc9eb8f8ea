//go:build race

package checkpoint

// raceDetector makes tests that try every point try fewer variants of each: what they are
// to show then is that ranks do not race.
const raceDetector = true
