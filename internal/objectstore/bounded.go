package objectstore

import (
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// maxText bounds an answer that is not an object, in bytes. A page has up to 1000 keys, and a byte of a key has up to 6 in
// XML.
const maxText = 16 << 20

// bounded is a client that reads up to maxText bytes of answers that are decoded in memory: lists, and errors.
type bounded struct{ s3.HTTPClient }

func (b bounded) Do(r *http.Request) (*http.Response, error) {
	out, err := b.HTTPClient.Do(r)
	q := r.URL.Query()
	if err == nil && (out.StatusCode >= 300 || r.Method != http.MethodGet || q.Has("list-type") || q.Has("uploads") || q.Has("uploadId")) {
		out.Body = &boundedBody{out.Body, maxText}
	}
	return out, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (n int, err error) {
	if b.left <= 0 {
		return 0, permanent{fmt.Errorf("the store answered with over %d bytes of text", int64(maxText)), "another store: this one does not answer as S3 does"}
	}
	n, err = b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
