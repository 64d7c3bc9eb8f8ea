package optim_test

import (
	"fmt"

	"trireme/optim"
)

func ExampleSchedule() {
	s := optim.DefaultSchedule()
	s.LearningRate, s.LRScheduler, s.WarmupSteps = 1e-3, "cosine", 10
	s = s.WithTotalSteps(100)
	for _, step := range []int{0, 5, 10, 55, 99} {
		fmt.Printf("step %d: %.2e\n", step, s.At(step))
	}
	// Output:
	// step 0: 0.00e+00
	// step 5: 5.00e-04
	// step 10: 1.00e-03
	// step 55: 5.00e-04
	// step 99: 3.05e-07
}
