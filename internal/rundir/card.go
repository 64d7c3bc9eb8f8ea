package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Card is run.json: a run and its starts.
type Card struct {
	Schema     string `json:"schema"`
	ID         string `json:"id"`
	Name       string `json:"name"`
	Start             // the latest start
	Parameters int64  `json:"parameters"`
	// Earlier are the starts before --resume auto, in order.
	Earlier []Start `json:"earlier_starts,omitempty"`
}

// Start is one start of a run. A nil Ended means that it still runs or was killed.
type Start struct {
	Version  string     `json:"version"`
	Command  []string   `json:"command"`
	Started  time.Time  `json:"started"`
	Ended    *time.Time `json:"ended,omitempty"`
	Exit     *int       `json:"exit,omitempty"`
	World    int        `json:"world"`
	Strategy string     `json:"strategy"`
	Device   string     `json:"device"`
	Steps    int        `json:"steps"`
	Job      string     `json:"job,omitempty"` // the launcher's id of the job
	// Planned are the planned peak tensor bytes of a rank by category, and total.
	Planned map[string]int64 `json:"planned,omitempty"`
}

// ReadCard reads run.json of a directory. An invalid ID is empty.
func ReadCard(dir string) (c Card, err error) {
	path := filepath.Join(dir, Identity)
	if st, err := os.Stat(path); errors.Is(err, fs.ErrPermission) {
		return c, err
	} else if err != nil || !st.Mode().IsRegular() {
		return c, fs.ErrNotExist
	}
	b, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(b, &c); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if !ValidID(c.ID) {
		c.ID = ""
	}
	return c, err
}
