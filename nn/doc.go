// Package nn has the layers of models, and Unit, the part of a model that is all-gathered and
// resharded as one.
//
// A layer is a struct of Params with a Forward method on a tape. Layers are independent of ranks:
// package parallel observes Units, and sets each Param's value and gradient destination. Recompute
// and Segments choose the units' activation checkpointing.
package nn
