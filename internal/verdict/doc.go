// Package verdict judges a run by its records: whether it is healthy, why not, what limits its speed, and what to
// try. Judge is a pure function of an Input; Of fills one from a run's directory.
//
// A run is unhealthy if a finding has severity Error, and doubtful with a Warning; a finding of severity Info explains and
// does not count, nor does what limits the speed. Thresholds are relative to the noise of the run's own curve, so that a noisy healthy run stays
// healthy; a curve with too few steps for a judgment has none.
//
// Suggestions are settings of the configuration as fault.Setting, which a command prints as flags.
package verdict
