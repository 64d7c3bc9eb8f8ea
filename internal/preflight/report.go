package preflight

import (
	"fmt"

	"trireme/internal/host"
)

const schema = "trireme.preflight/1"

// Report is the result of Run, the same on all hosts.
type Report struct {
	Schema   string     `json:"schema"`
	State    host.State `json:"state"` // the worst of the findings
	Problems int        `json:"problems"`
	Hosts    []Host     `json:"hosts"`
	Links    [][]Link   `json:"links"` // Links[i][j] is from host i to host j; i = j is empty
	Sums     []Sum      `json:"sums"`  // of each host; empty if hosts do not reach each other
	Findings []Finding  `json:"findings"`
	Seconds  float64    `json:"seconds"`
}

// Host is a host of the report.
type Host struct {
	Name    string     `json:"name"`
	Address string     `json:"address"`
	Digest  string     `json:"digest,omitempty"`
	Facts   host.Facts `json:"facts"`
}

// Finding is a finding about hosts.
type Finding struct {
	host.Finding
	Hosts []string `json:"hosts"`
}

// Empty returns a report without hosts.
func Empty() *Report {
	return &Report{Schema: schema, Hosts: []Host{}, Links: [][]Link{}, Sums: []Sum{}, Findings: []Finding{}}
}

func newReport(all []about, links [][]Link) *Report {
	r := Empty()
	r.Links = links
	named := map[string]int{}
	for _, a := range all {
		named[a.Name]++
	}
	for i, a := range all {
		name := a.Name
		if named[name] > 1 { // launchers on one machine
			name = fmt.Sprintf("%s:%d", name, i)
		}
		r.Hosts = append(r.Hosts, Host{name, a.Address, a.Digest, a.Facts})
	}
	return r
}

// connected reports whether each host reaches each other one with messages of any size.
func (r *Report) connected() bool {
	for i := range r.Links {
		for j, l := range r.Links[i] {
			if i != j && (l.State != Connected || l.Err != "") {
				return false
			}
		}
	}
	return true
}

// add appends a finding about hosts by their indices.
func (r *Report) add(state host.State, check, text, try string, hosts ...int) {
	f := Finding{Finding: host.Finding{Check: check, State: state, Text: text, Try: try}, Hosts: []string{}}
	for _, h := range hosts {
		f.Hosts = append(f.Hosts, r.Hosts[h].Name)
	}
	r.Findings = append(r.Findings, f)
}

// judge fills Findings from the measurements.
func (r *Report) judge() {
	r.judgeSoftware()
	r.judgeNames()
	r.judgeLinks()
	r.judgePackets()
	r.judgeSpeed()
	r.judgeClocks()
	r.judgeSums()
	r.judgeHosts()
	r.Judged()
}

// Judged sets State and Problems by the findings.
func (r *Report) Judged() *Report {
	var all []host.Finding
	for _, f := range r.Findings {
		all = append(all, f.Finding)
	}
	r.State, r.Problems = host.Worst(all), host.Problems(all)
	return r
}
