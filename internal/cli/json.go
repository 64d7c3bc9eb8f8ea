package cli

import (
	"encoding/json"
	"fmt"
	"io"
)

// writeJSON writes v in one line. v's field "schema" names the command and the version of
// its form: trireme.version/1.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
