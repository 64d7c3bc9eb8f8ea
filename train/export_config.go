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

// ExportConfig is the node `export`: the format of final_model.
type ExportConfig struct {
	// DType is the data type of the exported weights and of dtype (torch_dtype) in their
	// config.json. One of float32 | bfloat16 | float16 | compute | model. compute is
	// precision.param_dtype; model is the type in the loaded model's config.json, or float32.
	// Weights train in float32, so 16-bit types round them. Default float32.
	DType ExportDType `yaml:"dtype"`
	// MaxShardSize is the maximum size of a weights file, with its unit; larger models are split
	// into several files with an index, as in transformers' save_pretrained. Default 5GB.
	MaxShardSize device.Bytes `yaml:"max_shard_size"`
	// Weights selects the weights of final_model. One of final | ema | both. final is the last
	// step, or the best evaluation; ema is the average of the weights (training.ema); both writes
	// the average to ema_model beside final_model. Default final.
	Weights ExportWeights `yaml:"weights"`
}

// ExportWeights selects the exported weights.
type ExportWeights string

// Values of ExportConfig.Weights.
const (
	ExportFinal ExportWeights = "final"
	ExportEMA   ExportWeights = "ema"
	ExportBoth  ExportWeights = "both"
)

// Choices returns the allowed values.
func (ExportWeights) Choices() []string {
	return []string{string(ExportFinal), string(ExportEMA), string(ExportBoth)}
}

// ExportDType is the data type of exported weights.
type ExportDType string

// Types that follow another setting.
const (
	ExportAsCompute ExportDType = "compute" // precision.param_dtype
	ExportAsModel   ExportDType = "model"   // dtype of the loaded model's config.json
)

// Choices returns the allowed values.
func (ExportDType) Choices() []string {
	return []string{tensor.F32.String(), tensor.BF16.String(), tensor.F16.String(), string(ExportAsCompute), string(ExportAsModel)}
}

func defaultExport() ExportConfig {
	return ExportConfig{DType: ExportDType(tensor.F32.String()), MaxShardSize: checkpoint.MaxShardSize, Weights: ExportFinal}
}

// Validate checks the shard size.
func (c ExportConfig) Validate() error {
	if c.MaxShardSize <= 0 {
		return fault.Try(fault.At("max_shard_size", "is %d bytes: it must be positive", int64(c.MaxShardSize)), "5GB")
	}
	return nil
}

// exportDType returns the data type of exported weights of a model made from config.
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
		return 0, fault.Try(fmt.Errorf("train: export.dtype is model, but %s has dtype %q: weights are exported as float32, bfloat16 or float16", config.Path, name), "%s", fault.Set("export.dtype", "float32"))
	}
	return dt, nil
}
