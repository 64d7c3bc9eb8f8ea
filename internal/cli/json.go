package cli

import (
	"encoding/json"
	"fmt"
	"io"
)

// writeJSON writes v on one line. Its field "schema" has the command and the schema version:
// trireme.version/1.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
