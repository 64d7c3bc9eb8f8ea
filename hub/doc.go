// Package hub resolves models and data sets by name in the Hugging Face cache, and downloads
// missing files from the Hugging Face Hub or a server with its API. It does the same for models and data in object stores.
//
// It is not a general client: it lists one revision of a repository, selects the files that
// training needs, and downloads them into the cache. It does not parse models or data.
//
// A Client has the endpoint and the cache directory; FromEnv reads them from the environment
// variables of huggingface_hub.
//
//	c, err := hub.FromEnv(os.LookupEnv)
//	c.Progress = os.Stderr
//	m, err := c.Model(ctx, "Qwen/Qwen2.5-0.5B")         // m.Dir has config.json and weights
//	d, err := c.Dataset(ctx, "openai/gsm8k/main", "train") // d.Files are the split's, in d.Dir
//
// Names are OWNER/NAME, or NAME for the few without an owner, and may end in @REVISION: a branch,
// tag or commit. A data set's name may include a folder, file or pattern:
// OWNER/NAME/FOLDER@REVISION. ParseModel and ParseDataset report whether a text can be a name.
//
// The cache has the layout of huggingface_hub, so each finds the other's files:
//
//	models--OWNER--NAME/refs/main                   the commit of main
//	models--OWNER--NAME/snapshots/COMMIT/FILE       a link to ../../blobs/ETAG
//	models--OWNER--NAME/blobs/ETAG                  named by content: SHA-256, or git's SHA-1
//	models--OWNER--NAME/blobs/ETAG.incomplete       a partial download
//	models--OWNER--NAME/trees/COMMIT.json           the files of the commit
//	models--OWNER--NAME/.no_exist/COMMIT/FILE       the commit has no such file
//	.locks/models--OWNER--NAME/ETAG.lock            held by the downloading process
//
// Interrupted downloads are harmless: bytes are written to .incomplete and become a blob after size
// and digest match, links follow blobs, and a reference moves to a new commit after all requested
// files are there. Without the network, the newest complete snapshot is used.
//
// A name may be the URL of objects, s3://BUCKET/KEY. Client.Objects has the same layout for them: a folder BUCKET@ENDPOINT
// (BUCKET for AWS) instead of models--OWNER--NAME, a digest of key, size and ETag as name of a blob, a digest of the
// selected objects as commit, and a digest of the URL as name in refs. The checksum of a blob is the store's, if it has one.
//
// The token is sent to the endpoint's scheme, host and port only, not to redirects elsewhere.
// Responses are untrusted: file names are checked before they become paths, lengths are bounded,
// and control characters are removed from messages.
//
// Errors are *Error, with a kind for errors.Is: ErrAuth, ErrNotFound, ErrUnreachable, ErrCorrupt. A
// Client is safe for concurrent use by goroutines and processes.
package hub
