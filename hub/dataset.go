package hub

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Dataset brings the data files of a split into the cache: of the first of splits that there
// is; none is train. Data files are jsonl, json, ndjson, csv, tsv, parquet and txt, each also as
// .gz or .zst, of the kind that the split has most of.
//
// A file's split is read off its name as Hugging Face's libraries do: train-00000-of-00008.parquet,
// train.jsonl, en/validation.csv, test/part-1.txt. Where no name says anything, all files are
// train. A folder or a pattern in the name narrows the choice: OWNER/NAME/en or
// OWNER/NAME/data/*.jsonl@main; a file or pattern is taken as it is, whatever the split.
func (c Client) Dataset(ctx context.Context, name string, splits ...string) (*Snapshot, error) {
	n, ok := ParseDataset(name)
	if !ok {
		return nil, &Error{Kind: ErrNotFound, Text: readable(name) + " is no name of a data set", Try: "OWNER/NAME, OWNER/NAME/FOLDER or OWNER/NAME@REVISION"}
	}
	if len(splits) == 0 {
		splits = []string{"train"}
	}
	r := repo{"dataset", n.ID}
	return c.get(ctx, r, n, func(l *listing, _ func(string) ([]byte, error)) (w wanted, err error) {
		w.files, err = pickData(r, l, n.Path, splits)
		return w, err
	})
}

// HasSplit tells whether the data set, or the folder of it that was asked for, has files of one
// of the splits beside those of the snapshot. Of a file or pattern the answer is no: whoever names
// files means no others.
func (s *Snapshot) HasSplit(splits ...string) bool {
	within := s.Name.Path
	if strings.ContainsAny(within, patternChars) || slices.Contains(s.Files, within) {
		return false
	}
	return slices.ContainsFunc(s.others, func(name string) bool {
		below, ok := strings.CutPrefix(name, within)
		split := splitOf(strings.TrimPrefix(below, "/"))
		return ok && isData(name) && slices.ContainsFunc(splits, func(s string) bool { return canonical(s) == split })
	})
}

// patternChars are what makes a pattern of a name.
const patternChars = `*?[\`

// pickData chooses the data files of a split.
func pickData(r repo, l *listing, within string, splits []string) ([]string, error) {
	var all []string
	for _, f := range l.files {
		if f.name == within || strings.ContainsAny(within, patternChars) && matches(within, f.name) {
			all = append(all, f.name)
		}
	}
	if len(all) > 0 {
		return all, nil // as it was asked for
	}
	for _, f := range l.files {
		if isData(f.name) && (within == "" || strings.HasPrefix(f.name, within+"/")) {
			all = append(all, f.name)
		}
	}
	where := r.String()
	if within != "" {
		where += " in " + within
	}
	if len(all) == 0 {
		e := &Error{Kind: ErrNotFound, Text: fmt.Sprintf("%s has no data file (jsonl, json, csv, tsv, parquet, txt) at commit %s", where, l.commit)}
		if within != "" {
			e.Try = "one of its folders: " + listed(folders(l))
		}
		return nil, e
	}
	bySplit := map[string][]string{}
	for _, name := range all {
		s := splitOf(strings.TrimPrefix(name, within+"/"))
		bySplit[s] = append(bySplit[s], name)
	}
	for _, s := range splits {
		files := bySplit[canonical(s)]
		if len(files) == 0 && canonical(s) == "train" && len(bySplit) == 1 && bySplit["validation"] == nil && bySplit["test"] == nil {
			files = all // no name says anything
		}
		if len(files) > 0 {
			return whole(one(r, within, s, files))
		}
	}
	var has []string
	for s, files := range bySplit {
		if s == "" {
			s = path.Base(files[0])
		}
		has = append(has, s)
	}
	slices.Sort(has)
	return nil, &Error{Kind: ErrNotFound, Text: fmt.Sprintf("%s has no split %s: it has %s", where, splits[0], listed(has)), Try: "files of it by a pattern, such as " + r.id + "/" + all[0] + "@main"}
}

// one refuses files of several subsets, which have nothing to do with one another, and keeps
// those of the commonest kind.
func one(r repo, within, split string, files []string) ([]string, error) {
	subsets := map[string]bool{}
	kinds := map[string]int{}
	for _, name := range files {
		subsets[subset(strings.TrimPrefix(name, within+"/"))] = true
		kinds[kindOf(name)]++
	}
	if len(subsets) > 1 {
		var names []string
		for s := range subsets {
			if s == "" {
				s = "."
			}
			names = append(names, path.Join(within, s))
		}
		slices.Sort(names)
		try := names[0]
		if try == "." {
			try = names[1]
		}
		return nil, &Error{Kind: ErrNotFound, Text: fmt.Sprintf("%s has files of split %s in %d folders: %s", r, split, len(names), listed(names)), Try: r.id + "/" + try}
	}
	most := slices.MaxFunc(dataEndings, func(a, b string) int { return kinds[a] - kinds[b] })
	return slices.DeleteFunc(files, func(name string) bool { return kindOf(name) != most }), nil
}

// shard is a part of a file that was cut into so many: train-00002-of-00008.parquet.
var shard = regexp.MustCompile(`^(.*\D)(\d{3,6})-of-(\d{3,6})(\..*)$`)

// whole adds the shards that are not listed, so that they are missed.
func whole(files []string, err error) ([]string, error) {
	there := map[string]bool{}
	for _, name := range files {
		there[name] = true
	}
	for _, name := range files {
		m := shard.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		var of int
		fmt.Sscanf(m[3], "%d", &of) // at most six digits
		for i := range min(of, len(files)+1) {
			if part := fmt.Sprintf("%s%0*d-of-%s%s", m[1], len(m[2]), i, m[3], m[4]); !there[part] {
				files = append(files, part)
			}
		}
		break
	}
	slices.Sort(files)
	return files, err
}

// dataEndings are of data files, the best first.
var dataEndings = []string{".parquet", ".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".txt"}

// kindOf is the ending that says how a file is to be read, without that of its compression.
func kindOf(name string) string {
	name = strings.ToLower(name)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	return path.Ext(name)
}

// isData tells data from what describes it.
func isData(name string) bool {
	base := path.Base(name)
	switch base {
	case "config.json", "dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json", "requirements.txt", "LICENSE.txt":
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return false
		}
	}
	return slices.Contains(dataEndings, kindOf(name))
}

var splitWords = map[string]string{
	"train": "train", "training": "train",
	"validation": "validation", "valid": "validation", "val": "validation", "dev": "validation",
	"test": "test", "testing": "test", "eval": "test", "evaluation": "test",
}

// canonical is a split's usual name.
func canonical(split string) string {
	if s := splitWords[strings.ToLower(split)]; s != "" {
		return s
	}
	return split
}

// sharded is a file that is named by its split alone, whatever that is.
var sharded = regexp.MustCompile(`^(\w+(?:\.\w+)*)-\d{5}-of-\d{5}\b`)

// splitOf reads a split off a file's name, or off the folders that it lies in, the nearest
// first; "" where they say nothing.
func splitOf(name string) string {
	dir, base := path.Split(name)
	if m := sharded.FindStringSubmatch(base); m != nil {
		return canonical(m[1])
	}
	if s := splitIn(base); s != "" {
		return s
	}
	for _, folder := range slices.Backward(strings.Split(strings.TrimSuffix(dir, "/"), "/")) {
		if s := splitIn(folder); s != "" {
			return s
		}
	}
	return ""
}

// splitIn is the first split that one of the words of a text means.
func splitIn(text string) string {
	letter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !letter(r) }) {
		if s := splitWords[strings.ToLower(word)]; s != "" {
			return s
		}
	}
	return ""
}

// subset is the folder that a file lies in, up to the one that is named by its split.
func subset(name string) string {
	dir := strings.Split(path.Dir(name), "/")
	for i, folder := range dir {
		if splitIn(folder) != "" {
			dir = dir[:i]
			break
		}
	}
	s := strings.Join(dir, "/")
	if s == "." || s == "data" {
		return ""
	}
	return s
}

// folders are those of a listing that hold data, each once.
func folders(l *listing) []string {
	var out []string
	for _, f := range l.files {
		if dir := path.Dir(f.name); isData(f.name) && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// listed is the first of some names.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	if len(names) > 8 {
		return strings.Join(names[:8], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}
