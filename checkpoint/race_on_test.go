//go:build race

package checkpoint

// raceDetector reduces the number of variants of exhaustive tests.
const raceDetector = true
