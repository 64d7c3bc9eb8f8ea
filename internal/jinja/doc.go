// Package jinja renders the chat templates of tokenizer_config.json as the transformers library
// does: Jinja2 in its sandbox with trim_blocks and lstrip_blocks, break and continue, and {%
// generation %} blocks.
//
// Parse compiles a template. Render applies it to a conversation and returns the text and the byte
// ranges of its generation blocks.
//
//	t, err := jinja.Parse(source)
//	out, err := t.Render(map[string]any{"messages": messages, "add_generation_prompt": true})
//	                    // messages: []any{ordered.Map{{Key: "role", Value: "user"}, ...}}
//
// Values behave as in Python: strings are sequences of characters, None concatenated to a string is
// an error, an undefined name prints as nothing and is an error when used, mappings keep their
// order. Where Jinja2 raises an error, so does this package. An unsupported construct is an error
// that names it and its line.
//
// Templates are untrusted. They cannot access files, the network, the clock or Go values, only
// copies of Render's arguments. Source size, nesting, steps and output are bounded, so Render
// returns within about a second.
//
// Other files of text are templates too (internal/render): functions of the caller quote
// values, and in a strict template an undefined name is an error.
//
// The package has only the tags, filters, tests and methods that published chat templates use.
// There is no inheritance, include, autoescaping or translation, and no raw, with, filter block,
// recursive loop, power or format.
package jinja
