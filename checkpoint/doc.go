// Package checkpoint stores the state of a run so that any other world can go on from it:
// every tensor by its own global index, whoever held which part of it.
//
// The currency is Item: a kind of state (a parameter, a moment) and a tensor.Shard, the box of
// a named tensor that one rank holds. The package knows
// nothing of strategies, models or collectives; ranks agree through ProcessGroup, which the
// caller implements with whatever its ranks talk over.
//
// A Store is the directory of one run's checkpoints. Save, called by all ranks, works out
// who writes what (a box that several ranks hold is written once, by the least loaded of
// them), writes straight from the tensors' memory into .tmp-step-N-ID, and commits:
//
//	every rank   writes its boxes, with a CRC-32C a chunk, and syncs its file
//	all          exchange checksums, or the first error
//	rank 0       writes and syncs manifest.json, then COMMIT, and the directory
//	rank 0       renames it to step-N and syncs the parent
//
// A directory step-N with a COMMIT record that matches its manifest, whose files have the
// sizes and headers that the manifest gives, is a checkpoint; anything else is not, whatever
// its name. A save that fails, for a full disk or a killed process, leaves the checkpoints
// before it as they were.
//
// Resume finds the newest checkpoint, says why newer directories are not one, and fills the
// items of every rank, reading only the byte ranges that it wants and checking the CRC of
// every chunk that it touches. A load gives exactly what was saved or an error that says
// what is wrong; an error that wraps ErrCorrupt says that the bytes are not those saved.
// Open and Checkpoint.Load are the same for one process alone.
//
// Data files are safetensors files (package safetensors) that other tools can open: one a
// rank with its boxes as tensors ("sharded"), or one in all with whole tensors ("full").
// Export writes weights as a Hugging Face model directory, from the same shards.
package checkpoint
