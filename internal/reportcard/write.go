package reportcard

import (
	"fmt"
	"html"
	"io"
	"strings"

	"trireme/internal/verdict"
	"trireme/monitor"
)

// try lists the suggestions of a finding.
func (c Card) try(f verdict.Finding) string {
	var out []string
	for _, s := range f.Try {
		out = append(out, c.Flag(s))
	}
	if f.Advice != "" {
		out = append(out, f.Advice)
	}
	return strings.Join(out, ", ")
}

// section is a table of a report.
type section struct {
	Name  string
	Facts []Fact
}

func (c Card) sections() (out []section) {
	var shares []Fact
	for _, s := range c.Verdict.Speed.Shares {
		shares = append(shares, Fact{s.Name, fmt.Sprintf("%.1f%%", 100*s.Fraction)})
	}
	for _, s := range []section{{"Run", c.Facts}, {"Last values", c.Values}, {"Time", shares}, {"Peak memory of rank 0", c.Memory}, {"Checkpoints", c.Saved}, {"Events", c.Events}, {"Configuration", c.Config}} {
		if len(s.Facts) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// markdown escapes a text for a cell of a table or a line: nothing of it is markup.
var markdown = strings.NewReplacer("\n", " ", "\r", " ", "\\", "\\\\", "|", "\\|", "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "!", "\\!", "#", "\\#", "~", "\\~")

func escape(s string) string { return markdown.Replace(monitor.EscapeControl(s)) }

// WriteMarkdown writes the report as Markdown. Its charts are the files that plot names, such as report/1.svg; they are
// left out if plot is nil.
func (c Card) WriteMarkdown(w io.Writer, plot func(i int) string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Run %s\n\nVerdict: **%s**\n\n", escape(c.Title), c.Verdict.Health)
	for _, f := range c.Verdict.Findings {
		fmt.Fprintf(&b, "- %s: %s", f.Severity, escape(f.Text))
		if try := c.try(f); try != "" {
			fmt.Fprintf(&b, ". Try: %s", escape(try))
		}
		b.WriteString("\n")
	}
	if t := c.Verdict.Speed.Text; t != "" {
		fmt.Fprintf(&b, "- speed: %s\n", escape(t))
	}
	for i, p := range c.Plots {
		if plot != nil {
			fmt.Fprintf(&b, "\n![%s](%s)\n", escape(p.Title), plot(i))
		}
	}
	for _, s := range c.sections() {
		fmt.Fprintf(&b, "\n## %s\n\n| name | value |\n|---|---|\n", s.Name)
		for _, f := range s.Facts {
			fmt.Fprintf(&b, "| %s | %s |\n", escape(f.Name), escape(f.Value))
		}
	}
	fmt.Fprintf(&b, "\nWritten %s.\n", c.Produced.Format("2006-01-02 15:04 MST"))
	_, err := io.WriteString(w, b.String())
	return err
}

// head and style begin the HTML of a report, before and after its title.
const (
	head = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
`
	style = `<style>body{font-family:sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#111;background:#fff}
table{border-collapse:collapse;width:100%}td{border-bottom:1px solid #ddd;padding:.2rem .5rem;vertical-align:top;overflow-wrap:anywhere}
td:first-child{white-space:nowrap;width:16rem}svg{max-width:100%;height:auto}.error{color:#b91c1c}.warning{color:#b45309}
:root{color-scheme:light dark}
@media(prefers-color-scheme:dark){body{color:#e5e7eb;background:#16181d}svg>rect:first-of-type{fill:#16181d}svg text:not([fill]){fill:#e5e7eb}svg line{stroke:#3f444d}.error{color:#f87171}.warning{color:#fbbf24}}</style></head><body>
`
)

// WriteHTML writes the report as one HTML file.
func (c Card) WriteHTML(w io.Writer) error {
	var b strings.Builder
	e := html.EscapeString
	fmt.Fprintf(&b, "%s<title>Run %s</title>\n%s<h1>Run %s</h1><p>Verdict: <strong>%s</strong></p><ul>\n", head, e(c.Title), style, e(c.Title), c.Verdict.Health)
	for _, f := range c.Verdict.Findings {
		fmt.Fprintf(&b, `<li><span class="%s">%s</span>: %s`, f.Severity, f.Severity, e(f.Text))
		if try := c.try(f); try != "" {
			fmt.Fprintf(&b, ". Try: %s", e(try))
		}
		b.WriteString("</li>\n")
	}
	if t := c.Verdict.Speed.Text; t != "" {
		fmt.Fprintf(&b, "<li>speed: %s</li>", e(t))
	}
	b.WriteString("</ul>\n")
	for _, p := range c.Plots {
		b.WriteString(p.SVG) // escaped by SVG
	}
	b.WriteString("\n")
	for _, s := range c.sections() {
		fmt.Fprintf(&b, "<h2>%s</h2><table>", e(s.Name))
		for _, f := range s.Facts {
			fmt.Fprintf(&b, "<tr><td>%s</td><td>%s</td></tr>\n", e(f.Name), e(f.Value))
		}
		b.WriteString("</table>")
	}
	fmt.Fprintf(&b, "<p>Written %s.</p></body></html>\n", e(c.Produced.Format("2006-01-02 15:04 MST")))
	_, err := io.WriteString(w, b.String())
	return err
}
