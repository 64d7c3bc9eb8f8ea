package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// maxParts is S3's limit of parts of an object.
const maxParts = 10_000

// Writer writes one object of a known size: with one request, or above the size of a part with a multipart upload,
// whose parts are sent while the next ones are written. The object exists after Commit. A Writer is used by one
// goroutine.
type Writer struct {
	c      *Client
	at     Path
	parent context.Context // of the caller
	ctx    context.Context // of the requests; it ends with the first that fails
	cancel context.CancelCauseFunc
	size   int64
	part   int64 // bytes
	wrote  int64
	buf    []byte // of the next part

	id    string      // of the upload; "": not begun
	free  chan []byte // buffers that are not in use
	made  int         // buffers
	parts []types.CompletedPart
	wg    sync.WaitGroup
	mu    sync.Mutex
	err   error // of the first part that failed
	ended bool

	continues bool                 // Continue, not Create
	sent      map[int32]types.Part // of the upload that it continues
	kept      atomic.Int64         // bytes of them that were not sent again
}

var errSize = errors.New("another number of bytes than announced was written")

// Create returns a Writer of size bytes. ctx ends its requests. Nothing else writes an object of that key meanwhile. Its
// buffers have Memory bytes in all, and more only for an object of over 80 GB, whose parts are larger.
func (c *Client) Create(ctx context.Context, at Path, size int64) *Writer {
	w := &Writer{c: c, at: at, parent: ctx, size: size, part: max(c.o.PartBytes, (size+maxParts-1)/maxParts), free: make(chan []byte, buffers)}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	return w
}

// Write appends to the object.
func (w *Writer) Write(b []byte) (n int, err error) {
	if w.wrote+int64(len(b)) > w.size {
		return 0, fmt.Errorf("write %s: %w", w.at, errSize)
	}
	for len(b) > 0 {
		if w.buf == nil {
			if w.buf, err = w.buffer(); err != nil {
				return n, err
			}
		}
		k := min(cap(w.buf)-len(w.buf), len(b))
		w.buf = append(w.buf, b[:k]...)
		b, n, w.wrote = b[k:], n+k, w.wrote+int64(k)
		if len(w.buf) == cap(w.buf) && w.size > w.part {
			if err := w.send(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// buffer returns an empty buffer of a part, and waits until there is one.
func (w *Writer) buffer() ([]byte, error) {
	if w.made < buffers && len(w.free) == 0 {
		w.made++
		return make([]byte, 0, min(w.part, w.size)), nil
	}
	select {
	case b := <-w.free:
		return b[:0], nil
	case <-w.ctx.Done():
		return nil, w.failure()
	}
}

// failure returns the error of a part, or of the context.
func (w *Writer) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.ctx.Err() != nil {
		w.err = fmt.Errorf("write %s: %w", w.at, context.Cause(w.ctx))
	}
	return w.err
}

// send starts to send the buffer as the next part.
func (w *Writer) send() error {
	if err := w.begin(); err != nil {
		return err
	}
	b, i := w.buf, len(w.parts)
	w.buf = nil
	w.mu.Lock()
	w.parts = append(w.parts, types.CompletedPart{})
	w.mu.Unlock()
	w.wg.Go(func() {
		done, err := w.sendPart(int32(i+1), b)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil && w.err == nil {
			w.err = err
			w.cancel(err)
		}
		w.parts[i] = done
		w.free <- b
	})
	return w.failure()
}

func (w *Writer) sendPart(number int32, b []byte) (done types.CompletedPart, err error) {
	sum := checksum(b)
	if done, ok := w.had(number, len(b), sum); ok {
		w.kept.Add(int64(len(b)))
		return done, nil
	}
	err = w.c.do(w.ctx, "write", w.at, int64(len(b)), func(ctx context.Context, api *s3.Client) error {
		out, err := api.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &w.at.Bucket, Key: &w.at.Key, UploadId: &w.id, PartNumber: &number, Body: bytes.NewReader(b), ContentLength: aws.Int64(int64(len(b))),
			ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c, ChecksumCRC32C: sum,
		})
		if err != nil {
			return err
		}
		done = types.CompletedPart{PartNumber: &number, ETag: out.ETag, ChecksumCRC32C: out.ChecksumCRC32C}
		return same(out.ChecksumCRC32C, sum)
	})
	return done, err
}

// begin starts the upload, or continues one.
func (w *Writer) begin() error {
	if w.id == "" && w.continues {
		if err := w.takeUp(); err != nil {
			return err
		}
	}
	if w.id != "" {
		return nil
	}
	return w.c.do(w.ctx, "write", w.at, 0, func(ctx context.Context, api *s3.Client) error {
		out, err := api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &w.at.Bucket, Key: &w.at.Key, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c})
		if err == nil {
			w.id = aws.ToString(out.UploadId)
		}
		return err
	})
}

// Commit ends the object and returns when it is durable, with the size that was announced.
func (w *Writer) Commit() (err error) {
	defer func() { w.ended = err == nil }()
	if w.wrote != w.size {
		return fmt.Errorf("write %s: %w: %d of %d", w.at, errSize, w.wrote, w.size)
	}
	if w.size <= w.part {
		return w.c.Put(w.ctx, w.at, w.buf)
	}
	if len(w.buf) > 0 {
		if err := w.send(); err != nil {
			return err
		}
	}
	w.wg.Wait()
	if err := w.failure(); err != nil {
		return err
	}
	return w.complete()
}

func (w *Writer) complete() error {
	parts := slices.Clone(w.parts)
	return w.c.do(w.ctx, "write", w.at, w.size/64, func(ctx context.Context, api *s3.Client) error { // stores may read all parts
		_, err := api.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: &w.at.Bucket, Key: &w.at.Key, UploadId: &w.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
		})
		status, code := answer(err)
		if status == http.StatusNotFound && code == "NoSuchUpload" {
			err = nil // perhaps an earlier attempt, whose answer was lost, ended the upload
		}
		if err != nil {
			return err
		}
		head, err := api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &w.at.Bucket, Key: &w.at.Key})
		if err != nil {
			return err
		}
		if size := aws.ToInt64(head.ContentLength); size != w.size {
			return permanent{fmt.Errorf("the store has %d of %d bytes", size, w.size), "a prefix that nothing else writes to"}
		}
		return nil
	})
}

// Close ends a Writer. Without Commit it removes what was sent, and waits for that within the time of one attempt. If
// the context has ended, it does not wait, and leaves the upload to RemoveAll. A Writer of Continue leaves it in any case.
func (w *Writer) Close() error {
	w.cancel(errors.New("the write was given up"))
	w.wg.Wait()
	w.buf = nil
	if w.ended || w.continues || w.id == "" || w.parent.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.parent, w.c.o.Limit)
	defer cancel()
	return w.c.abort(ctx, w.at, w.id)
}
