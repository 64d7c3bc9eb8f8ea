package view

import (
	"fmt"

	"trireme/monitor"
)

func formatLoss(v float64) string { return fmt.Sprintf("%.4f", v) }

func formatScientific(v float64) string { return fmt.Sprintf("%.2e", v) }

func formatPercent(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }

// formatSeconds formats a duration as 655 ms or 12.3 s.
func formatSeconds(v float64) string {
	if v >= 10 {
		return monitor.Short(v) + " s"
	}
	return monitor.Short(1000*v) + " ms"
}

// formatRate formats bytes per second.
func formatRate(v float64) string { return monitor.Bytes(int64(v)) + "/s" }
