package view

import (
	"math"
	"slices"
	"strings"
)

// curve keeps all of a value's history in bounded space: when it is full, pairs of points are averaged,
// and each point then covers twice the steps.
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

// draw returns a sparkline of up to width columns.
func (c *curve) draw(width int, unicode bool) string {
	marks := []rune("▁▂▃▄▅▆▇█")
	if !unicode {
		marks = []rune("_.-=+*#%")
	}
	n := min(width, len(c.points))
	if n == 0 {
		return ""
	}
	means := make([]float64, n)
	for i := range means {
		part := c.points[i*len(c.points)/n : (i+1)*len(c.points)/n]
		for _, v := range part {
			means[i] += v / float64(len(part))
		}
	}
	low, high := slices.Min(means), slices.Max(means)
	var b strings.Builder
	for _, v := range means {
		k := 0
		if high > low {
			k = int((v - low) / (high - low) * float64(len(marks)-1) * 1.0001)
		}
		b.WriteRune(marks[min(k, len(marks)-1)])
	}
	return b.String()
}
