// Package conf strictly decodes a typed configuration tree and records the origin of each value.
//
// The tree is a plain struct. Each package owns its node: a struct with `yaml:"name"` tags and a
// Validate method. The package that runs them composes the root.
//
//	loaded, err := conf.Load(train.Default(),
//		conf.File("run.yaml"),
//		conf.Env(environ),
//		conf.Set("--set", "training.max_steps=20"),
//		conf.Flag("--output_dir", "output_dir", dir))
//
// Later sources override earlier ones: structs and maps merge key by key, lists are replaced. The result
// is the tree and Origins, the source of each value (default, run.yaml:3:5, --set, an environment
// variable, a flag). Print writes the tree as YAML that Load reads back to the same tree.
//
// Unknown keys, duplicate keys, and values of the wrong type or out of range are errors with the line,
// the path and a suggestion. Load returns all of them as Errors.
//
// Types: bool, integers (1e9 and 0x10 are integers, 1.5 is not), floats, strings,
// arrays, slices, maps with string keys, pointers (null is nil), structs, any,
// and types with encoding.TextUnmarshaler (enumerations; with Choices for suggestions). Fields without
// a yaml tag are skipped; embedded structs without one are inlined.
//
// conf does not read the environment and prints nothing.
package conf
