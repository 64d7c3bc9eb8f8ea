package launch_test

import (
	"context"
	"fmt"
	"log"

	"trireme/launch"
)

// Two workers with torchrun's variables; the output of rank 0 is shown.
func ExampleRun() {
	code, err := launch.Run(context.Background(), launch.Config{Nproc: 2, Command: []string{"sh", "-c", "echo rank $RANK of $WORLD_SIZE"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("exit code", code)
	// Output:
	// rank 0 of 2
	// exit code 0
}
