// Package checkpoint saves and loads the state of a run. Tensors are stored by global index, so a
// checkpoint loads into any number of ranks and any sharding.
//
// An Item is a box (tensor.Shard) of a named tensor that one rank holds, with its kind: a parameter
// or a slot of optimizer state. The package is independent of strategies, models and collectives.
// Ranks exchange messages through a ProcessGroup, which the caller implements.
//
// A Store is the checkpoint directory of one run. All ranks call Save. It plans who writes each box
// (the least loaded rank that holds it), writes from tensor memory into .tmp-step-N-ID, and
// commits:
//
//	every rank   writes its boxes, with a CRC-32C per chunk, and syncs its file
//	all          exchange checksums, or the first error
//	rank 0       writes and syncs manifest.json, then COMMIT, and the directory
//	rank 0       renames it to step-N and syncs the parent
//
// Store.Start does the same beside the program: a Saving writes in a goroutine of each rank and exchanges
// messages only where all ranks call it. Save is Start and a wait.
//
// A directory step-N is a checkpoint if its COMMIT matches its manifest and its files have the
// sizes and headers that the manifest lists. A failed save, be it a full disk or a killed process,
// leaves earlier checkpoints unchanged.
//
// Resume finds the newest checkpoint, reports why newer directories are invalid, and fills the
// items of every rank. It reads only the byte ranges it needs, widened to chunks, and checks their
// CRCs. Errors about damaged bytes wrap ErrCorrupt. Open and Checkpoint.Load do the same in a
// single process.
//
// Data files are in safetensors format: one per rank with its boxes as tensors ("sharded"), or one
// with full tensors ("full"). Export writes weights from the same shards as a Hugging Face model
// directory.
package checkpoint
