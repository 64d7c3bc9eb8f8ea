package hub

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"trireme/internal/objectstore"
)

// Dataset downloads the data files of a split into the cache: of the first of splits that exists;
// by default train. Data files are jsonl, json, ndjson, csv, tsv, parquet and txt, optionally with
// .gz or .zst, of the split's most common format.
//
// The split is in the file name, as in Hugging Face's datasets: train-00000-of-00008.parquet,
// train.jsonl, en/validation.csv, test/part-1.txt. If no name contains a split, all files are
// train. A folder or pattern in the name selects files: OWNER/NAME/en or
// OWNER/NAME/data/*.jsonl@main; a file or pattern ignores the split.
//
// The name may be the URL of an object, of a directory of objects, or a pattern of them; then splits has no effect.
func (c Client) Dataset(ctx context.Context, name string, splits ...string) (*Snapshot, error) {
	if objectstore.IsURL(name) {
		return c.objects(ctx, name, dataObjects, pickAll)
	}
	n, ok := ParseDataset(name)
	if !ok {
		return nil, &Error{Kind: ErrNotFound, Text: readable(name) + " is not a name of a data set", Try: "OWNER/NAME, OWNER/NAME/FOLDER or OWNER/NAME@REVISION"}
	}
	if len(splits) == 0 {
		splits = []string{"train"}
	}
	r := repo{kind: "dataset", id: n.ID}
	return c.get(ctx, r, n, func(l *listing, _ func(string) ([]byte, error)) (w wanted, err error) {
		w.files, err = pickData(r, l, n.Path, splits)
		return w, err
	})
}

// HasSplit reports whether the data set, or the requested folder of it, has further files of one of
// the splits. It is false if the name selected files.
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

const patternChars = `*?[\`

// pickData selects the data files of a split.
func pickData(r repo, l *listing, within string, splits []string) ([]string, error) {
	var all []string
	for _, f := range l.files {
		if f.name == within || strings.ContainsAny(within, patternChars) && matches(within, f.name) {
			all = append(all, f.name)
		}
	}
	if len(all) > 0 {
		return all, nil // selected by name
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
		e := &Error{Kind: ErrNotFound, Text: fmt.Sprintf("%s has no data files (jsonl, json, csv, tsv, parquet, txt) at commit %s", where, l.commit)}
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
			files = all // no name contains a split
		}
		if len(files) > 0 {
			return withShards(oneSubset(r, within, s, files))
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
	return nil, &Error{Kind: ErrNotFound, Text: fmt.Sprintf("%s has no split %s: it has %s", where, splits[0], listed(has)), Try: "a pattern of files, such as " + r.id + "/" + all[0] + "@main"}
}

// oneSubset rejects files of several subsets, and keeps those of the most common format.
func oneSubset(r repo, within, split string, files []string) ([]string, error) {
	subsets := map[string]bool{}
	kinds := map[string]int{}
	for _, name := range files {
		subsets[subset(strings.TrimPrefix(name, within+"/"))] = true
		kinds[formatOf(name)]++
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
	return slices.DeleteFunc(files, func(name string) bool { return formatOf(name) != most }), nil
}

// shard matches shards: train-00002-of-00008.parquet.
var shard = regexp.MustCompile(`^(.*\D)(\d{3,6})-of-(\d{3,6})(\..*)$`)

// withShards adds shards that are not listed, so that they are reported as missing.
func withShards(files []string, err error) ([]string, error) {
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
		fmt.Sscanf(m[3], "%d", &of) // six digits, cannot fail
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

// dataEndings are the extensions of data files, best first.
var dataEndings = []string{".parquet", ".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".txt"}

// formatOf is the extension before that of the compression.
func formatOf(name string) string {
	name = strings.ToLower(name)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	return path.Ext(name)
}

// isData reports whether a file is data, not metadata.
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
	return slices.Contains(dataEndings, formatOf(name))
}

var splitWords = map[string]string{
	"train": "train", "training": "train",
	"validation": "validation", "valid": "validation", "val": "validation", "dev": "validation",
	"test": "test", "testing": "test", "eval": "test", "evaluation": "test",
}

func canonical(split string) string {
	if s := splitWords[strings.ToLower(split)]; s != "" {
		return s
	}
	return split
}

// sharded matches a file named by its split alone, whatever the split.
var sharded = regexp.MustCompile(`^(\w+(?:\.\w+)*)-\d{5}-of-\d{5}\b`)

// splitOf returns the split in a file's name, or else in its folders, nearest first; "" if there is
// none.
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

// splitIn returns the first split among the words of text.
func splitIn(text string) string {
	letter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !letter(r) }) {
		if s := splitWords[strings.ToLower(word)]; s != "" {
			return s
		}
	}
	return ""
}

// subset is the folder of a file, up to the one named by its split.
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

// folders lists the folders with data files.
func folders(l *listing) []string {
	var out []string
	for _, f := range l.files {
		if dir := path.Dir(f.name); isData(f.name) && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

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
