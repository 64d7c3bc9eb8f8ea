// Package conf decodes one typed configuration tree, strictly, and remembers where every
// value came from.
//
// The tree is a plain struct. Each package owns its node: a struct whose exported fields
// carry `yaml:"name"` tags and whose Validate method says what is wrong with it. The root is
// composed of those nodes by the package that runs them. conf knows none of them.
//
//	loaded, err := conf.Load(train.Default(),
//		conf.File("run.yaml"),
//		conf.Env(environ),
//		conf.Set("--set", "training.max_steps=20"),
//		conf.Flag("--output_dir", "output_dir", dir))
//
// Sources are applied in order, the later over the earlier: structs and maps merge key by
// key, lists are replaced. The result is the tree, and Origins: for every path the place that
// decided it (default, run.yaml:3:5, --set, an environment variable, a flag). Print writes
// the tree as YAML that Load reads back to the same tree.
//
// Nothing is ignored: an unknown key, a key given twice, a value of the wrong type and a
// value that does not fit are errors that name the line, the path and, where one is near, the
// key that was meant. All of them are collected in Errors before Load returns.
//
// Types: bool, integers (1e9 and 0x10 are whole numbers, 1.5 is not), floats, strings,
// arrays, slices, maps with string keys, pointers (null is nil), structs, any,
// and whatever implements encoding.TextUnmarshaler (enumerations; with Choices they suggest).
// A field without a yaml tag is not configuration. An embedded struct without one is inlined.
//
// conf reads no environment and prints nothing: callers hand in what they have read.
package conf
