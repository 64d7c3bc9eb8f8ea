package collective

// messageOp does one operation with peers that exchange bytes.
type messageOp struct {
	l *lane
	w *work
}

func (o *messageOp) do() error { return nil }
