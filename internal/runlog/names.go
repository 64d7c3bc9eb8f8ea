package runlog

// names numbers the metrics of a run.
type names struct {
	ids  map[string]int
	list []string
}

// id returns the number of a name, a new one if needed; -1 if there are too many.
func (n *names) id(name []byte) int {
	if id, ok := n.ids[string(name)]; ok {
		return id
	}
	if len(n.list) >= maxColumns {
		return -1
	}
	id := len(n.list)
	n.ids[string(name)] = id
	n.list = append(n.list, string(name))
	return id
}

// Columns of every row.
const (
	colStep = iota
	colTime
	colOffset
	colTotal // tokens_total
	colTokens
	colLoss
	colEvalLoss
	colNonfinite
	colWorld
)

var fixed = []string{"step", "time", "@offset", "tokens_total", "tokens", "loss", "eval_loss", "nonfinite", "world_size"}

func newNames() *names {
	n := &names{ids: map[string]int{}}
	for _, name := range fixed {
		n.id([]byte(name))
	}
	return n
}
