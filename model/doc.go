// Package model says what the engine and the trainer need of a model: units in the order in
// which they run, a loss, logits, and the numbers that memory and FLOPs are counted from. It
// reads config.json and finds the family that an architecture belongs to.
//
// A family is a folder of its own (model/llama) whose main file is single-device and reads
// like the paper. Which families a program has is the program's choice: a Registry is a
// value, made where the program is wired.
package model
