// Package hubtest is a test server with the Hugging Face Hub's API, on the loopback interface, with
// injectable faults.
//
//	s := hubtest.New()
//	defer s.Close()
//	commit := s.Commit("model", "owner/name", map[string]string{"config.json": "{}"})
//	c := hub.Client{Endpoint: s.URL, Cache: t.TempDir()}
//
// It lists revisions (/api/models/ID/revision/REV and /tree/REV), serves HEAD and GET of files with
// X-Repo-Commit, ETag, X-Linked-Etag and X-Linked-Size, and redirects large files to a second
// server with a signed URL, as the hub does to its CDN. That server supports ranges and rejects
// requests with a token.
//
// It does not support uploads and checks requests only as far as tests need.
package hubtest
