package hub_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"trireme/hub"
	"trireme/hub/hubtest"
)

// A model's files are downloaded once into the cache shared with Hugging Face's libraries. The
// server is a hubtest.Server.
func ExampleClient_Model() {
	server := hubtest.New()
	defer server.Close()
	server.Commit("model", "owner/tiny", map[string]string{"config.json": "{}", "model.safetensors": "weights", "tokenizer.json": "{}"})
	cache, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(cache)
	snapshot, err := hub.Client{Endpoint: server.URL, Cache: cache}.Model(context.Background(), "owner/tiny")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snapshot.Files)
	config, err := os.ReadFile(filepath.Join(snapshot.Dir, "config.json"))
	fmt.Println(string(config), err)
	// Output:
	// [config.json model.safetensors tokenizer.json]
	// {} <nil>
}
