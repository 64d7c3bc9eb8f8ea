// Package cudnn is attention by XLA's custom calls to cuDNN. Forward and Backward describe a call:
// target, configuration, operands and results. Ops computes tensor.Attention's operations with them
// on a core that can emit calls. The facts and their sources are in ../testdata/cudnn/README.md.
package cudnn
