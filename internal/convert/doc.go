// Package convert reads the checkpoints of other programs and writes them in other formats.
//
// Open detects the format of a path and returns a Source: named tensors of parameters and optimizer
// state that are read in ranges when they are written, so that memory does not depend on the size of
// the model. Targets is the table of formats to write.
//
//	source                                                    reader
//	Hugging Face directory, safetensors or pytorch_model.bin  directory.go
//	torch.save: a state dict or a trainer's checkpoint        statedict.go
//	torch.distributed.checkpoint directory                    dcp.go
//	Accelerate directory of a model under FSDP                directory.go, moments.go
//	DeepSpeed ZeRO checkpoint directory                       deepspeed.go
//	checkpoint of this program                                own.go
//
// Values do not change: a type is converted only if asked, or where the target lacks it. Names are
// those of the model without the prefixes of wrappers (names.go); torchtitan's Llama has others (meta.go).
//
// Input is untrusted; see packages torchfile and pickle. No code of a file is run.
package convert
