// Package optim is update rules, learning-rate schedules and the arithmetic of a step's
// scalars. It updates slices of parameters and knows neither ranks nor whole tensors: who owns
// which slice is package parallel's to say.
package optim
