package view

import (
	"math"
	"slices"
	"strings"
)

// curve has all of a value's history in bounded space: when it is full, pairs of points are averaged, and each point
// then covers twice the steps.
type curve struct {
	points []float64
	each   int // steps per point
	sum    float64
	n      int
}

const maxPoints = 512

func (c *curve) add(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if c.each == 0 {
		c.each = 1
	}
	c.sum += v
	if c.n++; c.n < c.each {
		return
	}
	c.points = append(c.points, c.sum/float64(c.n))
	c.sum, c.n = 0, 0
	if len(c.points) == maxPoints {
		for i := range maxPoints / 2 {
			c.points[i] = (c.points[2*i] + c.points[2*i+1]) / 2
		}
		c.points = c.points[:maxPoints/2]
		c.each *= 2
	}
}

// fill sets the history to means of each steps.
func (c *curve) fill(points []float64, each int) {
	*c = curve{each: 1}
	for _, v := range points {
		c.add(v)
	}
	c.each *= max(each, 1)
	c.sum, c.n = 0, 0
}

// means returns up to n means over equal parts of the history.
func (c *curve) means(n int) []float64 {
	n = min(n, len(c.points))
	if n <= 0 {
		return nil
	}
	means := make([]float64, n)
	for i := range means {
		part := c.points[i*len(c.points)/n : (i+1)*len(c.points)/n]
		for _, v := range part {
			means[i] += v / float64(len(part))
		}
	}
	return means
}

// draw returns a line of up to width columns.
func (c *curve) draw(width int, unicode bool) string {
	lines, _, _ := c.plot(width, 1, unicode)
	return lines[0]
}

// plot returns height lines of up to width columns, and the values of the lowest and the highest mark.
func (c *curve) plot(width, height int, unicode bool) (lines []string, low, high float64) {
	marks := []rune("▁▂▃▄▅▆▇█")
	if !unicode {
		marks = []rune("_.-=+*#%")
	}
	means := c.means(width)
	lines = make([]string, height)
	if len(means) == 0 {
		return lines, 0, 0
	}
	low, high = slices.Min(means), slices.Max(means)
	levels := len(marks) * height
	at := make([]int, len(means)) // filled levels less one
	for i, v := range means {
		if high > low {
			at[i] = min(int((v-low)/(high-low)*float64(levels-1)*1.0001), levels-1)
		}
	}
	for y := range height {
		var b strings.Builder
		base := (height - 1 - y) * len(marks)
		for _, level := range at {
			switch {
			case level < base:
				b.WriteByte(' ')
			case level >= base+len(marks):
				b.WriteRune(marks[len(marks)-1])
			default:
				b.WriteRune(marks[level-base])
			}
		}
		lines[y] = strings.TrimRight(b.String(), " ")
	}
	return lines, low, high
}
