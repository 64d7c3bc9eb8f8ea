// Package foreign reads the configuration files of other programs as they are: the DDP and FSDP
// trainers' YAML, the Free Transformer's YAML, DeepSpeed's JSON and Accelerate's YAML. It turns
// them into assignments to this program's one configuration tree; it trains nothing, and writes
// none of these formats.
//
//	file, err := foreign.Read("ddp_config.yaml", text, foreign.Options{Mode: "ddp"})
//	loaded, err := conf.Load(train.Default(), append([]conf.Source{file.Source}, rest...)...)
//	fmt.Fprint(os.Stderr, file.Warning())
//
// The format of a file is detected from its keys, never from its name. A file of this program's own
// keys is Native, and its Source is the file itself.
//
// A format is a vocabulary: a tree of keys, each with a rule that says what becomes of a value.
// A rule assigns it (the origin is then the key's place in the user's file), notes that it has
// no effect or is changed, or refuses it. A key without a rule is an error. Defaults of the
// program that the file was written for are assigned first, with an origin that says so. So
// `config show --origin` prints for every value of the resolved tree the line that decided it.
// Trainer is such defaults alone: --mode without a file.
//
// A setting that is not obeyed is in File.Notes, with its line: a value that agrees with what is
// done in any case, or asks for nothing, is not. What would change what is trained, and is not
// available, is an error: another optimizer, tensor parallelism, quantized communication.
//
// docs/files-of-other-programs.md has a table of each vocabulary, which a test keeps up to date.
// testdata/vocabulary lists the keys that DeepSpeed and Accelerate read.
package foreign
