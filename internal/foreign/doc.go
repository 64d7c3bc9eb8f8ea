// Package foreign reads unchanged configuration files of other programs: DeepSpeed's JSON,
// Accelerate's YAML, and the YAML of the DDP and FSDP trainers and of the Free Transformer. It converts
// them to assignments to this program's configuration tree, and writes none of these formats.
//
//	file, err := foreign.Read("ddp_config.yaml", text, foreign.Options{Mode: "ddp"})
//	loaded, err := conf.Load(train.Default(), append([]conf.Source{file.Source}, rest...)...)
//	fmt.Fprint(os.Stderr, file.Warning())
//
// The format is detected from the keys, not from the file name. A file with this program's keys is
// Native, and its Source is the file itself.
//
// A format is a vocabulary: a tree of keys with a rule each. A rule assigns the value (with the position
// in the file as origin), notes that it is ignored or changed, or refuses it. A key without a rule is an
// error. Defaults of the file's program are assigned first, so `config show --origin` prints the line
// that set each value. Trainer has only such defaults: --mode without a file.
//
// File.Notes lists ignored and changed settings, except those that agree with Trireme's behavior. An
// unsupported setting that would change training is an error: an optimizer, tensor parallelism,
// quantized communication.
//
// A test keeps the tables of vocabularies in docs/files-of-other-programs.md up to date.
// testdata/vocabulary lists the keys that DeepSpeed and Accelerate read.
package foreign
