// Package model defines what the engine and the trainer need from a model: units in execution
// order, a loss, logits, and the numbers for memory and FLOPs. It reads config.json and finds an
// architecture's family.
//
// A family is a folder (model/llama) whose main file is single-device and reads like the paper. A
// program passes its families as a Registry.
package model
