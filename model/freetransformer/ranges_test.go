package freetransformer

import (
	"testing"

	"trireme/model/modeltest"
)

func TestRanges(t *testing.T) {
	for _, mode := range []string{Exact, Factored} {
		modeltest.Ranges(t, Family, small+`, "latent_mode": "`+mode+`"}`)
	}
}
