// Package optimtest runs optimizers in tests: Step updates one full parameter on one device,
// without package parallel.
package optimtest
