package kernel

// attentionOps is the variant that impl.Current names.
func attentionOps() *attnOps { return &attnGeneric }
