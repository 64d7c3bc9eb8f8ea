package model_test

import (
	"fmt"
	"log"

	"trireme/device"
	"trireme/model"
	"trireme/model/llama"
)

// The parameters of a config.json, without memory for them.
func ExampleConfig_Make() {
	families := model.Registry{llama.Family}
	config, err := families.ParseConfig("config.json", []byte(`{"architectures": ["LlamaForCausalLM"], "vocab_size": 16,
		"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 32}`))
	if err != nil {
		log.Fatal(err)
	}
	meta, err := device.Open("meta", device.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer meta.Close()
	m, err := config.Make(meta, 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range model.Params(m)[:3] {
		fmt.Println(p.Name, p.Shape)
	}
	fmt.Println(model.CountParams(m), "parameters")
	// Output:
	// model.embed_tokens.weight [16 8]
	// model.layers.0.input_layernorm.weight [8]
	// model.layers.0.self_attn.q_proj.weight [8 8]
	// 920 parameters
}
