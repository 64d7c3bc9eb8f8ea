package device

import (
	"fmt"
	"strings"

	"trireme/fault"
	"trireme/internal/impl"
)

// Instructions is the instruction set of operations on cpu.
type Instructions string

// AutoInstructions leaves the set of this process, at first the fastest that the processor has.
const AutoInstructions Instructions = "auto"

// Choices lists all sets.
func (Instructions) Choices() []string {
	return append([]string{string(AutoInstructions)}, impl.Names()...)
}

// Use selects the instruction set for all operations of this process on cpu. Call it before any. The error names
// the sets that this processor has.
func (i Instructions) Use() error {
	if i == AutoInstructions || i == "" {
		return nil
	}
	have := impl.Available()
	for _, l := range have {
		if l.String() == string(i) {
			impl.Use(l)
			return nil
		}
	}
	return fault.Try(fault.At("device.instructions", "is %s: this processor has %s", i, strings.Trim(fmt.Sprint(have), "[]")), "%s", fault.Set("device.instructions", string(AutoInstructions)))
}
