package tokenizer_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"trireme/tokenizer"
)

func ExampleTrain() {
	texts := slices.Values([]string{"low low low lower lower newest newest widest"})
	t, err := tokenizer.Train(context.Background(), texts, tokenizer.TrainOptions{VocabSize: 262})
	if err != nil {
		log.Fatal(err)
	}
	ids := t.Encode("low lower", tokenizer.Options{})
	var tokens []string
	for _, id := range ids {
		tokens = append(tokens, t.Token(id))
	}
	fmt.Printf("%q\n%q\n", tokens, t.Decode(ids))
	// Output:
	// ["low" "Ġlow" "e" "r"]
	// "low lower"
}
