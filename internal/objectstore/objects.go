package objectstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"trireme/internal/concurrent"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of b as S3 writes it.
func checksum(b []byte) *string {
	return aws.String(base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, castagnoli))))
}

// same compares the checksum that a store returned with that of the bytes sent. Some stores return none.
func same(returned, sent *string) error {
	if returned != nil && *returned != "" && *returned != *sent {
		return errDamaged
	}
	return nil
}

// Info describes an object.
type Info struct {
	Path     Path
	Size     int64
	Modified time.Time // by the store's clock, in seconds
	Tag      string    // changes with the content
}

// Head describes an object.
func (c *Client) Head(ctx context.Context, at Path) (Info, error) {
	info, _, err := c.head(ctx, at, "")
	return info, err
}

// Put writes a small object.
func (c *Client) Put(ctx context.Context, at Path, b []byte) error { return c.put(ctx, at, b, nil) }

func (c *Client) put(ctx context.Context, at Path, b []byte, ifNoneMatch *string) error {
	sum := checksum(b)
	return c.do(ctx, "write", at, int64(len(b)), func(ctx context.Context, api *s3.Client) error {
		out, err := api.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &at.Bucket, Key: &at.Key, Body: bytes.NewReader(b), ContentLength: aws.Int64(int64(len(b))),
			ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c, ChecksumCRC32C: sum, IfNoneMatch: ifNoneMatch,
		})
		if status, _ := answer(err); status == http.StatusPreconditionFailed && ifNoneMatch != nil {
			// Perhaps an earlier attempt, or the network sent this one twice.
			there, err := c.ReadAll(ctx, at, int64(len(b)))
			switch {
			case err == nil && bytes.Equal(there, b):
				return nil
			case errors.Is(err, ErrUnavailable): // whose object it is, is not known
				return err
			}
			return permanent{ErrExists, "a prefix that no other run writes to"}
		}
		if err != nil {
			return err
		}
		return same(out.ChecksumCRC32C, sum)
	})
}

// PutNew writes a small object if there is none of its name. Of several writers one succeeds; the error of the others
// wraps ErrExists. It succeeds if the object has this content already.
func (c *Client) PutNew(ctx context.Context, at Path, b []byte) error {
	return c.put(ctx, at, b, aws.String("*"))
}

// ReadAll reads an object of up to limit bytes.
func (c *Client) ReadAll(ctx context.Context, at Path, limit int64) ([]byte, error) {
	o, err := c.Open(ctx, at)
	if err != nil {
		return nil, err
	}
	if o.Info.Size > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", at, o.Info.Size, limit)
	}
	b := make([]byte, o.Info.Size)
	if n, err := o.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}

// read fills b from offset off of an object whose tag is as given, or any if it is empty. A cut answer is continued.
// It returns the object's description; n < len(b) only with an error or at its end.
func (c *Client) read(ctx context.Context, at Path, b []byte, off int64, tag string) (n int, info Info, err error) {
	var match *string
	if tag != "" {
		match = &tag
	}
	err = c.do(ctx, "read", at, int64(len(b)), func(ctx context.Context, api *s3.Client) error {
		first := off + int64(n)
		out, err := api.GetObject(ctx, &s3.GetObjectInput{Bucket: &at.Bucket, Key: &at.Key, IfMatch: match, Range: aws.String(fmt.Sprintf("bytes=%d-%d", first, off+int64(len(b))-1))})
		switch status, _ := answer(err); {
		case status == http.StatusPreconditionFailed:
			return permanent{ErrReplaced, "again, when nothing writes there"}
		case status == http.StatusRequestedRangeNotSatisfiable: // after its end
			head, err := api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &at.Bucket, Key: &at.Key})
			if err == nil {
				info = Info{at, aws.ToInt64(head.ContentLength), aws.ToTime(head.LastModified), aws.ToString(head.ETag)}
			}
			return err
		case err != nil:
			return err
		}
		defer out.Body.Close()
		from, to, size, ok := parseRange(aws.ToString(out.ContentRange))
		if !ok && first == 0 && out.ContentRange == nil { // a store that sends the full object
			from, to, size, ok = 0, min(aws.ToInt64(out.ContentLength), int64(len(b)))-1, aws.ToInt64(out.ContentLength), true
		}
		if !ok || from != first || to-from+1 > int64(len(b)-n) || to-from+1 < min(int64(len(b)-n), size-first) {
			return permanent{fmt.Errorf("the store answered with the range %q for bytes from %d on", aws.ToString(out.ContentRange), first), "a store that sends ranges of objects, or without a proxy"}
		}
		info = Info{at, size, aws.ToTime(out.LastModified), aws.ToString(out.ETag)}
		if match == nil && info.Tag != "" { // later attempts read the same object
			match = &info.Tag
		}
		k, err := io.ReadFull(out.Body, b[n:n+int(to-from+1)])
		n += k
		return err
	})
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, info, err
}

// parseRange parses "bytes FIRST-LAST/SIZE".
func parseRange(s string) (first, last, size int64, ok bool) {
	rest, ok := strings.CutPrefix(s, "bytes ")
	if !ok {
		return 0, 0, 0, false
	}
	span, all, ok := strings.Cut(rest, "/")
	from, to, dash := strings.Cut(span, "-")
	first, ok1 := parseSize(from)
	last, ok2 := parseSize(to)
	size, ok3 := parseSize(all)
	if !ok || !dash || !ok1 || !ok2 || !ok3 || first > last || last >= size {
		return 0, 0, 0, false
	}
	return first, last, size, true
}

// parseSize parses digits.
func parseSize(s string) (n int64, ok bool) {
	if s == "" || len(s) > 18 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

// Remove deletes an object. It succeeds if there is none.
func (c *Client) Remove(ctx context.Context, at Path) error {
	return c.do(ctx, "delete", at, 0, func(ctx context.Context, api *s3.Client) error {
		_, err := api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &at.Bucket, Key: &at.Key})
		if status, code := answer(err); status == http.StatusNotFound && code != "NoSuchBucket" {
			return nil
		}
		return err
	})
}

// atOnce is the number of requests that delete at a time.
const atOnce = 8

// RemoveAll deletes all objects of a directory, and its unfinished uploads.
func (c *Client) RemoveAll(ctx context.Context, dir Path) error {
	all, err := c.List(ctx, dir)
	if err != nil {
		return err
	}
	if err := concurrent.Each(atOnce, len(all), func(_, i int) error { return c.Remove(ctx, all[i].Path) }); err != nil {
		return err
	}
	uploads, err := c.Uploads(ctx, dir)
	if err != nil {
		return err
	}
	return concurrent.Each(atOnce, len(uploads), func(_, i int) error { return c.RemoveUpload(ctx, uploads[i]) })
}
