// Package browsertest drives the web page of trireme ui in a headless Chromium. It is a module of its own, because
// the program does not need a client of the DevTools protocol.
//
// Without Chromium its tests skip. UITEST_PICTURES=DIR writes the pictures of docs/img to DIR, and UITEST_MILLION=1
// measures runs of a million steps.
package browsertest
