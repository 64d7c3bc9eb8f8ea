package rendezvous_test

import (
	"fmt"
	"log"

	"trireme/rendezvous"
)

// The variables of torchrun. A program passes os.LookupEnv.
func ExampleRead() {
	vars := map[string]string{"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
	env, err := rendezvous.Read(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("rank", env.Rank, "of", env.WorldSize, "one machine:", env.OneMachine())
	// Output:
	// rank 3 of 4 one machine: true
}
