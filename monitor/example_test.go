package monitor_test

import (
	"fmt"
	"time"

	"trireme/monitor"
)

func ExampleFormatLine() {
	r := monitor.Record{
		Step: 1240, MaxSteps: 5000, Loss: 2.1431, GradNorm: 0.84, LR: 2.71e-5,
		Tokens: 524288, LabelTokens: 524288, StepSeconds: 0.655, WorldSize: 8, CommFraction: 0.113,
	}
	fmt.Println(monitor.FormatLine(r, 43*time.Minute))
	// Output: step=1240/5000 loss=2.1431 lr=2.71e-05 gnorm=0.84 tok/s=800440 mfu=n/a step_ms=655 comm=11.3% data=0.0% eta=0h43m
}
