package launch

import (
	"encoding/json"
	"io"
	"os"
	"strings"
)

// errorFileVar is the variable with the path of the file to which torch.distributed.elastic's record decorator
// writes a worker's exception.
const (
	errorFileVar  = "TORCHELASTIC_ERROR_FILE"
	errorFileName = "error.json"
)

// maxReason limits the message of an error file, in bytes of the line that shows it.
const maxReason = 500

// readReason returns the message of a worker's error file; "" without one.
func readReason(path string) string {
	if path == "" {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return "" // most programs write none
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return ""
	}
	return parseReason(b)
}

// parseReason returns the message of an error file in one line: {"message": TEXT} or {"message": {"message":
// TEXT, "extraInfo": {...}}}. It is "" for anything else.
func parseReason(b []byte) string {
	var file struct{ Message json.RawMessage }
	if json.Unmarshal(b, &file) != nil {
		return ""
	}
	var text string
	if json.Unmarshal(file.Message, &text) != nil {
		var inner struct{ Message string }
		if json.Unmarshal(file.Message, &inner) != nil {
			return ""
		}
		text = inner.Message
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + " ..."
	}
	return text
}
