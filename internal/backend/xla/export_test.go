package xla

// SetChunking limits attention's scores in programs of b compiled from now on.
func (b *Backend) SetChunking(scores, least int) {
	b.client.target.chunking = chunking{scores, least}
}
