package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/flight"
	"trireme/internal/durable"
	"trireme/internal/rundir"
	"trireme/model"
	"trireme/monitor"
	"trireme/nn"
	"trireme/optim"
	"trireme/tensor"
	"trireme/tokenizer"
)

// Export writes the model as a Hugging Face directory: weights, config.json with the configured
// changes, generation_config.json, and the files of the first of tokenizers that has any. If
// export.weights is both, the average of the weights goes to ema_model beside it. If a weight is not
// finite, Export writes nothing and returns an error. All ranks call it.
func (r *Run) Export(ctx context.Context, dir string, tokenizers ...string) error {
	defer r.deps.Recorder.Leave(r.deps.Recorder.Enter(flight.Exporting, filepath.Base(dir)))
	w := r.Config.Export.Weights
	if r.state.Updates == 0 && w != ExportFinal { // no average yet
		w = ExportFinal
	}
	if w == ExportBoth {
		if err := r.export(ctx, filepath.Join(filepath.Dir(dir), rundir.EMAModel), optim.AverageSlot, tokenizers); err != nil {
			return err
		}
	}
	slot := ""
	if w == ExportEMA {
		slot = optim.AverageSlot
	}
	return r.export(ctx, dir, slot, tokenizers)
}

// export writes the parameters, or an optimizer slot instead of them.
func (r *Run) export(ctx context.Context, dir, slot string, tokenizers []string) error {
	if err := r.engine.Sync(); err != nil {
		return err
	}
	dt, err := r.Config.exportDType(r.config)
	if err != nil {
		return err
	}
	owned := r.engine.OwnedSlot(slot)
	if err := checkpoint.CheckFinite(ctx, owned, r.deps.ProcessGroup, r.backend); err != nil {
		return fault.Try(fmt.Errorf("train: no model is exported: %w", err), "%s", r.nonFiniteAdvice())
	}
	entries, shards := exported(model.Params(r.model), owned, dt)
	if r.deps.World.Rank() == 0 {
		files := modelFiles{config: r.config, info: r.info, labels: r.sets.Labels, path: r.Config.Model.Path, tokenizers: tokenizers}
		err = files.write(dir, dt)
	}
	o := checkpoint.ExportOptions{MaxShardSize: int64(r.Config.Export.MaxShardSize), Device: r.backend}
	// Other ranks would wait for this one if it returned early.
	if failed := checkpoint.Export(ctx, dir, entries, shards, r.deps.ProcessGroup, o); err == nil {
		err = failed
	}
	return err
}

// exported returns the tensors of an export and this rank's shards of them. Aliases are written under
// each name.
func exported(params []*nn.Param, owned []tensor.Shard, dt tensor.DType) (entries []safetensors.Entry, shards []tensor.Shard) {
	twins := map[string][]string{}
	for _, p := range params {
		twins[p.Name] = p.Aliases
		for _, name := range append([]string{p.Name}, p.Aliases...) {
			entries = append(entries, safetensors.Entry{Name: name, DType: dt, Shape: p.Shape})
		}
	}
	for _, s := range owned {
		shards = append(shards, s)
		for _, name := range twins[s.Name] {
			s.Name = name
			shards = append(shards, s)
		}
	}
	return entries, shards
}

// modelFiles are the files of an exported model besides its weights.
type modelFiles struct {
	config     *model.Config
	info       model.Info
	labels     []string // names of the classes; nil leaves those of config
	path       string   // of the original model, whose generation_config.json is copied; may be empty
	tokenizers []string // see Run.Export
}

func (f modelFiles) write(dir string, dt tensor.DType) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if err := durable.Sweep(dir); err != nil { // after a killed export
		return fmt.Errorf("train: %w", err)
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(f.config.JSON, &config); err != nil {
		return fmt.Errorf("train: %s: %w", f.config.Path, err)
	}
	dtype := "torch_dtype" // newer files call it dtype
	if _, newer := config["dtype"]; newer {
		dtype = "dtype"
		delete(config, "torch_dtype")
	}
	config[dtype] = json.RawMessage(`"` + dt.String() + `"`)
	if err := nameLabels(config, f.labels, f.info.Labels); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(dir, "config.json"), config); err != nil {
		return err
	}
	if err := f.writeGeneration(dir, config); err != nil {
		return err
	}
	for _, from := range f.tokenizers {
		copied, err := copyTokenizer(dir, from)
		if err != nil || copied > 0 {
			return err
		}
	}
	return nil
}

// copyTokenizer copies a tokenizer's files from a directory, or a tokenizer.json of any name.
func copyTokenizer(to, from string) (copied int, err error) {
	if st, err := os.Stat(from); err != nil || st.IsDir() {
		return copyFiles(to, from, tokenizer.Files())
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return 0, fmt.Errorf("train: %w", err)
	}
	return 1, replace(filepath.Join(to, "tokenizer.json"), b)
}

const generationFile = "generation_config.json"

// writeGeneration copies generation_config.json, or writes one with the special token ids.
func (f modelFiles) writeGeneration(dir string, config map[string]json.RawMessage) error {
	if f.info.Task != model.Causal {
		return nil
	}
	if f.path != "" {
		if copied, err := copyFiles(dir, f.path, []string{generationFile}); err != nil || copied > 0 {
			return err
		}
	}
	generation := map[string]json.RawMessage{"_from_model_config": json.RawMessage("true")}
	for _, key := range []string{"bos_token_id", "eos_token_id", "pad_token_id"} {
		if v, ok := config[key]; ok && string(v) != "null" {
			generation[key] = v
		}
	}
	return writeJSON(filepath.Join(dir, generationFile), generation)
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("train: %s: %w", path, err)
	}
	return replace(path, append(b, '\n'))
}

func copyFiles(to, from string, names []string) (copied int, err error) {
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return copied, fmt.Errorf("train: %w", err)
		}
		if err := replace(filepath.Join(to, name), b); err != nil {
			return copied, err
		}
		copied++
	}
	return copied, nil
}

func replace(path string, data []byte) error {
	if err := durable.WriteFile(path, data); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

// RankMemory is the memory of a rank's tensors and process.
type RankMemory struct {
	Rank         int              `json:"rank"`
	Peak         map[string]int64 `json:"peak"`       // bytes by category; peaks at different times
	BetweenSteps map[string]int64 `json:"rest"`       // bytes by category between steps
	Total        int64            `json:"total"`      // peak of the sum
	Resident     int64            `json:"rss_peak"`   // of the process; 0 except for its first rank
	Shared       int64            `json:"rss_shared"` // part of Resident that other ranks may count too
}

// Memory gathers the memory of all ranks. All ranks call it.
func (r *Run) Memory(ctx context.Context) ([]RankMemory, error) {
	m := RankMemory{Rank: r.deps.World.Rank(), Peak: map[string]int64{}, BetweenSteps: map[string]int64{}, Total: r.peak.PeakTotal}
	for c := range tensor.NumCategories {
		m.Peak[c.String()], m.BetweenSteps[c.String()] = r.peak.Peak[c], r.peak.Live[c]
	}
	if res, err := monitor.ReadResident(); err == nil && r.deps.Process.Rank == 0 {
		m.Resident, m.Shared = res.Peak, res.Shared
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	all, err := r.deps.ProcessGroup.AllGatherBytes(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	out := make([]RankMemory, len(all))
	for i, b := range all {
		if err := json.Unmarshal(b, &out[i]); err != nil {
			return nil, fmt.Errorf("train: rank %d sent an invalid message: %w", i, err)
		}
	}
	return out, nil
}

// maxUsage returns the larger peaks of a and b, with b's live bytes.
func maxUsage(a, b tensor.Usage) tensor.Usage {
	for c := range b.Peak {
		b.Peak[c] = max(a.Peak[c], b.Peak[c])
	}
	if a.PeakTotal > b.PeakTotal {
		b.PeakTotal, b.AtPeak = a.PeakTotal, a.AtPeak
	}
	return b
}
