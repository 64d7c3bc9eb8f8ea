package train

import (
	"trireme/model"
	"trireme/monitor"
)

// means returns metric sums divided by label tokens.
func (o StepResult) means(names []string) map[string]float64 {
	if len(names) == 0 || o.Tokens == 0 {
		return nil
	}
	m := make(map[string]float64, len(names))
	for i, name := range names {
		m[name] = o.Sums[i] / float64(o.Tokens)
	}
	return m
}

// score sets a classifier's accuracy and macro F1. F1 = 2 hits / (predicted + actual) is averaged over
// labels that occur or are predicted.
func (o StepResult) score(e *monitor.Evaluation, info model.Info) {
	if info.Labels == 0 || o.Tokens == 0 {
		return
	}
	counts := o.Sums[len(info.Sums)+len(info.EvalSums):]
	hits, found, actual := counts[:info.Labels], counts[info.Labels:2*info.Labels], counts[2*info.Labels:]
	right, f1, labels := 0.0, 0.0, 0.0
	for i := range hits {
		right += hits[i]
		if both := found[i] + actual[i]; both > 0 {
			f1 += 2 * hits[i] / both
			labels++
		}
	}
	right /= float64(o.Tokens)
	f1 /= labels
	e.Accuracy, e.MacroF1 = &right, &f1
}
