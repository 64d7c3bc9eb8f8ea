// Package foreign reads the configuration files of other programs as they are: the DDP and FSDP
// trainers' YAML, the Free Transformer's YAML, DeepSpeed's JSON and Accelerate's YAML. It turns
// them into assignments to this program's one configuration tree; it trains nothing, and writes
// none of these formats.
//
//	file, err := foreign.Read("ddp_config.yaml", text, foreign.Options{Mode: "ddp"})
//	loaded, err := conf.Load(train.Default(), append([]conf.Source{file.Source}, rest...)...)
//	fmt.Fprint(os.Stderr, file.Warning())
//
// Which format a file has is told by its keys, never by its name. A file of this program's own
// keys is Native, and its Source is the file itself.
//
// A format is a vocabulary: a tree of keys, each with a rule that says what becomes of a value.
// A rule assigns (the origin is then the key's place in the user's file), or notes that a value
// changes nothing here and why, or refuses it. A key that no rule is for is an error. What the
// program that the file was written for does where the file is silent is assigned before,
// with an origin that says so. So for every value of the resolved tree `config show --origin`
// tells the line that decided it.
//
// Nothing is dropped in silence: File.Notes has every key that changes nothing. What would
// change the numbers of the training, and cannot be done, is an error: another optimizer, tensor
// parallelism, quantised communication.
package foreign
