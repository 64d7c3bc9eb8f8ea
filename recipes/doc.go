// Package recipes holds whole jobs that need nothing but this program and the machine.
package recipes
