// Package cudnn describes attention as custom calls of XLA to cuDNN: target, configuration, operands
// and results. It emits nothing itself. The facts and their sources are in
// ../testdata/cudnn/README.md.
package cudnn
