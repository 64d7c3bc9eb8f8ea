package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"trireme/generate"
	"trireme/internal/kernel"
	"trireme/monitor"
	"trireme/tensor"
	"trireme/train"
)

// GenerateOptions configure Generate.
type GenerateOptions struct {
	Prompt, New int // tokens; New is 2 or more
	Cache       generate.CacheType
	Weights     train.WeightType // that the model was loaded as
	Threads     int              // of its backend, cpu
}

// GenerateReport has the keys of the Python programs.
type GenerateReport struct {
	DType            string  `json:"dtype"` // of weights
	CacheDType       string  `json:"cache_dtype"`
	Threads          int     `json:"threads"`
	PromptTokens     int     `json:"prompt_tokens"`
	NewTokens        int     `json:"new_tokens"`
	PromptTokensPerS float64 `json:"prompt_tokens_per_s"` // to the first new token
	TokensPerS       float64 `json:"tokens_per_s"`        // by the median new token after the first
	TokenMS          float64 `json:"token_ms"`            // that median
	RSSMiB           int64   `json:"rss_mib"`             // peak; 0 if unknown
	TokenBytes       int64   `json:"token_bytes"`         // weights that a token reads
	ReadGBPerS       float64 `json:"read_gb_per_s"`       // of a plain read of TokenBytes by the same number of threads
	ReadShare        float64 `json:"read_share"`          // of the median token, what the plain read takes
	Tokens           []int32 `json:"tokens"`
}

// PromptID is token i of the prompt of Generate and of the Python programs.
func PromptID(i, vocab int) int32 { return int32((i*7919 + 13) % vocab) }

// Generate measures greedy generation of one sequence after a prompt. A first token after the same prompt is a warm-up.
func Generate(ctx context.Context, m *train.LoadedModel, o GenerateOptions) (r GenerateReport, err error) {
	info := m.Model.Info()
	if o.Prompt < 1 || o.New < 2 || o.Prompt+o.New > info.MaxPositions {
		return r, fmt.Errorf("bench: generate: %d new tokens after %d: at least 2 after 1, and no more together than the model's %d positions", o.New, o.Prompt, info.MaxPositions)
	}
	prompt := make([]int32, o.Prompt)
	for i := range prompt {
		prompt[i] = PromptID(i, info.Vocab)
	}
	r = GenerateReport{
		DType: string(o.Weights), CacheDType: string(o.Cache.Or(m.DType)), Threads: o.Threads, PromptTokens: o.Prompt, NewTokens: o.New,
		TokenBytes: o.Weights.Bytes(info.MatMulParams + info.HeadParams),
	}
	var times []float64
	for _, count := range []int{1, o.New} {
		times, r.Tokens = nil, nil
		last := time.Now()
		for id, err := range generate.Tokens(ctx, m.Backend, m.Model, prompt, info.MaxPositions, generate.Options{MaxNewTokens: count, DType: m.DType, Cache: o.Cache}) {
			if err != nil {
				return r, fmt.Errorf("bench: %w", err)
			}
			now := time.Now()
			times, r.Tokens, last = append(times, now.Sub(last).Seconds()), append(r.Tokens, id), now
		}
	}
	r.PromptTokensPerS = float64(o.Prompt) / times[0]
	token := Median(times[1:])
	r.TokensPerS, r.TokenMS = 1/token, 1e3*token
	if res, err := monitor.ReadResident(); err == nil {
		r.RSSMiB = res.Peak >> 20
	}
	read := readSeconds(m.Backend, r.TokenBytes, o.Threads)
	r.ReadGBPerS, r.ReadShare = float64(r.TokenBytes)/read/1e9, read/token
	return r, nil
}

// readSeconds is the least time of several in which threads read bytes of the backend's memory.
func readSeconds(b tensor.Backend, bytes int64, threads int) float64 {
	n := int(bytes / 4)
	x := b.New(tensor.Workspace, tensor.F32, n)
	defer x.Release()
	b.Fill(x, 1)
	all := tensor.Host[float32](x)
	var times []float64
	for range 5 {
		var wg sync.WaitGroup
		began := time.Now()
		for i := range threads {
			wg.Go(func() { kernel.Squares(all[i*n/threads : (i+1)*n/threads]) })
		}
		wg.Wait()
		times = append(times, time.Since(began).Seconds())
	}
	return slices.Min(times)
}
