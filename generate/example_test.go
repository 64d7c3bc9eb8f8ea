package generate_test

import (
	"context"
	"fmt"
	"log"

	"trireme/device"
	"trireme/generate"
	"trireme/model"
	"trireme/model/llama"
	"trireme/tensor"
)

// Four tokens from a model with initial weights. train.LoadModel reads a trained one.
func ExampleTokens() {
	families := model.Registry{llama.Family}
	config, err := families.ParseConfig("config.json", []byte(`{"architectures": ["LlamaForCausalLM"], "vocab_size": 16,
		"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 32}`))
	if err != nil {
		log.Fatal(err)
	}
	cpu, err := device.Open("cpu", device.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer cpu.Close()
	m, err := config.Make(cpu, 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range model.Params(m) {
		p.Value = cpu.New(tensor.Params, tensor.F32, p.Shape...)
		p.Fill(cpu, p.Value, 42, 0)
	}
	n := 0
	for id, err := range generate.Tokens(context.Background(), cpu, m, []int32{1, 2, 3}, 32, generate.Options{MaxNewTokens: 4}) {
		if err != nil || id < 0 || id >= 16 {
			log.Fatal(id, err)
		}
		n++
	}
	fmt.Println(n, "tokens")
	// Output: 4 tokens
}
