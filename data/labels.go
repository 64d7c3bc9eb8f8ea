package data

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"trireme/fault"
)

// labels maps the class labels of rows to ids.
type labels struct {
	names []string         // by id; nil: labels are ids
	ids   map[string]int32 // of names
	count int              // ids are below it; 0: any
}

// of returns the id of a row's label.
func (l *labels) of(key string, v any) (int32, error) {
	n := int64(0)
	switch v := v.(type) {
	case string:
		id, ok := l.ids[v]
		if l.names != nil {
			if !ok {
				return 0, fmt.Errorf("the %s %s is not one of %s", key, short(v), listed(l.names))
			}
			return id, nil
		}
		var err error
		if n, err = strconv.ParseInt(strings.TrimSpace(v), 10, 64); err != nil {
			return 0, fault.Try(fmt.Errorf("the %s %s is not an integer, but the first row's is", key, short(v)), "integers or names in all rows")
		}
	case int64:
		n = v
	case bool:
		if v {
			n = 1
		}
	case float64:
		return 0, fault.Try(fmt.Errorf("the %s %v is not a class: labels are integers from 0 or names (regression is not supported)", key, v), "integers")
	default:
		return 0, fmt.Errorf("the %s is %s, not an integer or a name", key, typeName(v))
	}
	switch {
	case l.names != nil:
		return 0, fmt.Errorf("the %s is %s, but other rows have names", key, typeName(v))
	case n < 0 || n >= 1<<31:
		return 0, fmt.Errorf("the %s is %d, not an integer from 0", key, n)
	case l.count > 0 && n >= int64(l.count):
		return 0, classError(key, n, l.count)
	}
	return int32(n), nil
}

// classError is the error for a label outside the model's range.
func classError(key string, n int64, count int) error {
	return fault.Try(fmt.Errorf("the %s is %d, but the model has %d labels, from 0", key, n, count), "%s", fault.Set("model.num_labels", "N"))
}

// maxLabels bounds the number of label names; more indicates the wrong key.
const maxLabels = 1 << 16

// labelsOf determines what the labels are: integers, the model's names, or else the names in the
// training files, numbered in byte order.
func (o *opener) labelsOf(s *source, cols columns, first *record) (*labels, error) {
	if o.labels != nil {
		return o.labels, nil
	}
	l := &labels{count: o.Labels}
	if _, named := cols.value(first, "label").(string); named {
		found, err := s.distinct(cols)
		if err != nil {
			return nil, err
		}
		numbers := !slices.ContainsFunc(found, func(v string) bool {
			_, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return err != nil
		})
		switch {
		case o.knows(found):
			l.names = make([]string, len(o.LabelIDs))
			for name, id := range o.LabelIDs {
				if id < 0 || id >= len(l.names) || l.names[id] != "" {
					return nil, fault.Try(fmt.Errorf("data: label2id in config.json: %s has id %d of %d", short(name), id, len(l.names)), "ids from 0 without gaps")
				}
				l.names[id] = name
			}
		case !numbers && len(o.LabelIDs) > 0 && !o.placeholders():
			unknown := slices.IndexFunc(found, func(v string) bool { _, ok := o.LabelIDs[v]; return !ok })
			return nil, fault.Try(fmt.Errorf("data: %s: the label %s is not in the model's label2id (config.json)", s.path, short(found[unknown])), "correct it, or %s to use the labels of the data", fault.Set("model.num_labels", "N"))
		case !numbers && l.count > 0 && len(found) > l.count:
			return nil, fault.Try(fmt.Errorf("data: %s has %d labels (%s), but the model has %d", s.path, len(found), listed(found), l.count), "%s", fault.Set("model.num_labels", len(found)))
		case !numbers:
			l.names = found
		}
	}
	if l.names != nil {
		l.ids = map[string]int32{}
		for i, name := range l.names {
			l.ids[name] = int32(i)
		}
	}
	o.labels = l
	return l, nil
}

// knows reports whether the model has an id for each name.
func (o *opener) knows(names []string) bool {
	return len(o.LabelIDs) > 0 && !slices.ContainsFunc(names, func(v string) bool { _, ok := o.LabelIDs[v]; return !ok })
}

// placeholders reports whether the model's names are the default LABEL_0, LABEL_1, ...
func (o *opener) placeholders() bool {
	for name, id := range o.LabelIDs {
		if name != "LABEL_"+strconv.Itoa(id) {
			return false
		}
	}
	return true
}

// distinct returns the labels of all rows, as text, sorted.
func (s *source) distinct(cols columns) ([]string, error) {
	seen := map[string]bool{}
	err := s.eachRecord(func(r *record) error {
		v, ok := cols.value(r, "label").(string)
		if !ok {
			return nil // encode returns the error
		}
		if seen[v] = true; len(seen) > maxLabels {
			return fault.Try(fmt.Errorf("data: %s: more than %d distinct labels: is this the text?", r.where, maxLabels), "%s", fault.Set("data.columns.label", "KEY"))
		}
		return nil
	})
	names := make([]string, 0, len(seen))
	for v := range seen {
		names = append(names, v)
	}
	slices.Sort(names)
	return names, err
}

// short abbreviates a text of the data for a message.
func short(s string) string {
	if len(s) > 40 {
		s = s[:40] + "..."
	}
	return strconv.Quote(s)
}

func listed(names []string) string {
	if len(names) > 10 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:10], ", "), len(names)-10)
	}
	return strings.Join(names, ", ")
}
