// Package ui serves the web page of trireme ui: runs, their charts, time, traces and configurations.
//
// The page is hand-written HTML, CSS and JavaScript modules below page, embedded in the program. It loads nothing
// from elsewhere. The server has no state of its own but what it has read: package runlog reads runs, verdict judges
// them and tracefile reads traces. It writes nothing to a run except runlog's index.
//
//	s, err := ui.New(ui.Config{Dirs: []string{"runs"}})
//	defer s.Close()
//	http.Serve(listener, s)
//
// # Trust
//
// Everything in a run is untrusted: names, configuration, notes, metrics, samples, traces. The server sends them as
// JSON only, and the page makes text nodes of them (dom.js). The policy in guard.go forbids scripts that are not
// the page's files, and parsing strings as HTML.
//
// A request names a run by the id in the list and a trace by the name in the list; neither is used as a path. Symbolic
// links are not followed.
//
// Other web pages in the same browser cannot read answers: a request must name this server as its host, so that a
// name of theirs that resolves to this machine is refused, and answers are for pages of the same origin only. With a
// token, which an address other than loopback needs, each request must have it.
package ui
