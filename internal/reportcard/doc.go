// Package reportcard writes the report of a run as Markdown and as one HTML file, with the verdict, configuration,
// curves, time split, memory, checkpoints and environment. Curves are SVG. Every text of the run is escaped; neither file
// refers to anything outside it.
//
// Of reads a Card from a run; WriteMarkdown and WriteHTML write it.
package reportcard
