//go:build !amd64

package kernel

// attentionOps is the generic variant: the compiler's code is all there is here.
func attentionOps() *attnOps { return &attnGeneric }
