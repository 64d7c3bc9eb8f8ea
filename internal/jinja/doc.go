// Package jinja runs the chat templates of tokenizer_config.json as the transformers library
// does: Jinja2 in its sandbox with trim_blocks and lstrip_blocks, break and continue, and
// {% generation %} marks.
//
// Parse reads a template; Render runs it on a conversation and gives the text, and the
// parts of it that stand between generation marks.
//
//	t, err := jinja.Parse(source)
//	out, err := t.Render(map[string]any{"messages": messages, "add_generation_prompt": true})
//	                    // messages: []any{ordered.Map{{Key: "role", Value: "user"}, ...}}
//
// Values mean what they mean in Python: a text is characters, None joined to a string is an
// error and never prints as something else, an undefined name prints as nothing and fails
// when it is used, a mapping keeps its order. Where Jinja2 stops with an error, so does this package; a construct that
// it does not know is an error that names it and its line, never a guess.
//
// A template comes from strangers. It reaches no file, no network, no clock and no Go value:
// only what Render is given, as copies. Its size, nesting, steps and bytes are bounded, so a
// Render ends in a second or so whatever the template is.
//
// This is no general Jinja. Of tags, filters, tests and methods it has those that published chat
// templates use; there is no inheritance, inclusion, escaping or translation, and no raw, with,
// filter block, recursive loop, power or format.
package jinja
