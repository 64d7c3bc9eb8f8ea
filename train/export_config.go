package train

import (
	"cmp"
	"fmt"

	"trireme/checkpoint"
	"trireme/device"
	"trireme/fault"
	"trireme/model"
	"trireme/tensor"
)

// ExportConfig is the node `export`: how final_model is written.
type ExportConfig struct {
	// DType is the type of the exported weights, and of dtype (torch_dtype) in their config.json.
	// One of float32 | bfloat16 | float16 | compute | model. compute is precision.param_dtype;
	// model is the type that the config.json of the loaded model names, float32 if it names none.
	// Weights train in float32, so 16-bit types round. Default float32.
	DType ExportDType `yaml:"dtype"`
	// MaxShardSize is the size of tensors in one file, with its unit, beyond which weights go on in
	// another file with an index, as max_shard_size of transformers' save_pretrained. Default 5GB.
	MaxShardSize device.Bytes `yaml:"max_shard_size"`
	// Weights says which weights final_model has. One of final | ema | both. final is those of the
	// last step, or of the best evaluation; ema is their average (training.ema); both writes the
	// average to ema_model beside final_model. Default final.
	Weights ExportWeights `yaml:"weights"`
}

// ExportWeights says which weights are exported.
type ExportWeights string

// What can be exported.
const (
	ExportFinal ExportWeights = "final"
	ExportEMA   ExportWeights = "ema"
	ExportBoth  ExportWeights = "both"
)

// Choices are the names.
func (ExportWeights) Choices() []string {
	return []string{string(ExportFinal), string(ExportEMA), string(ExportBoth)}
}

// ExportDType is the type of exported weights.
type ExportDType string

// Types that follow another setting.
const (
	ExportAsCompute ExportDType = "compute" // precision.param_dtype
	ExportAsModel   ExportDType = "model"   // what config.json of the loaded model names
)

// Choices are the names.
func (ExportDType) Choices() []string {
	return []string{tensor.F32.String(), tensor.BF16.String(), tensor.F16.String(), string(ExportAsCompute), string(ExportAsModel)}
}

func defaultExport() ExportConfig {
	return ExportConfig{DType: ExportDType(tensor.F32.String()), MaxShardSize: checkpoint.MaxShardSize, Weights: ExportFinal}
}

// Validate refuses files without room.
func (c ExportConfig) Validate() error {
	if c.MaxShardSize <= 0 {
		return fault.Try(fault.At("max_shard_size", "is %d bytes: it must be positive", int64(c.MaxShardSize)), "5GB")
	}
	return nil
}

// exportDType is the type of the exported weights of a model made from config.
func (cfg Config) exportDType(config *model.Config) (tensor.DType, error) {
	name := string(cfg.Export.DType)
	switch cfg.Export.DType {
	case ExportAsCompute:
		name = cfg.Precision.ParamDType
	case ExportAsModel:
		var keys struct {
			DType  *string `json:"dtype"`
			Legacy *string `json:"torch_dtype"`
		}
		if err := model.Decode(config.JSON, &keys); err != nil {
			return 0, fmt.Errorf("train: %s: %w", config.Path, err)
		}
		name = *cmp.Or(keys.DType, keys.Legacy, new(tensor.F32.String()))
	}
	dt, ok := tensor.ParseDType(name)
	if !ok || dt != tensor.F32 && dt != tensor.BF16 && dt != tensor.F16 {
		return 0, fault.Try(fmt.Errorf("train: export.dtype is model, and the type that %s names is %q: weights are written as float32, bfloat16 or float16", config.Path, name), "%s", fault.Set("export.dtype", "float32"))
	}
	return dt, nil
}
