package xla

import (
	"testing"

	"trireme/collective"
	"trireme/internal/backend/meta"
	"trireme/internal/backend/record"
	"trireme/tensor"
)

// Host is the backend of b outside programs.
func (b *Backend) Host() Host { return b.host }

// SetChunking limits attention's scores in programs of b compiled from now on.
func (b *Backend) SetChunking(scores, least int) {
	b.client.target.chunking = chunking{scores, least}
}

// SetDeterministic is whether programs of b compiled from now on have the same bits in every run by their
// form.
func (b *Backend) SetDeterministic(on bool) { b.client.target.deterministic = on }

// SetColumns is target.columns for programs of b compiled from now on.
func (b *Backend) SetColumns(n int) { b.client.target.columns = n }

// SetAlign is target.align for programs of b compiled from now on.
func (b *Backend) SetAlign(n int) { b.client.target.align = n }

// Text is the program of f for a platform, with deterministic operations.
func Text(t *testing.T, platform string, f func(b tensor.Backend)) string {
	t.Helper()
	b := record.New(meta.New())
	rec, err := b.Record(true, func() error { f(b); return nil })
	if err != nil {
		t.Fatal(err)
	}
	to := newTarget(platform)
	to.deterministic = true
	m, err := emit(rec.Program, to, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	return m.text
}

// Emit is a program's text for a platform. groups are the rank lists of each group.
func Emit(p *record.Program, platform string, groups map[string][][]int, replicas int) (string, error) {
	m, err := emit(p, newTarget(platform), groups, replicas)
	if err != nil {
		return "", err
	}
	return m.text, nil
}

// WithGroups notes the groups that ranks form.
func WithGroups(w collective.World, groups map[string][][]int) collective.World {
	return world{w, groups}
}
