package objectstore

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// maxListed bounds the objects of a directory. A page counts as leastPage or more.
const (
	maxListed = 1 << 20
	leastPage = 256
)

// ReadDir returns the names in a directory, sorted: of objects, and of the directories that their keys imply. One
// without any does not exist.
func (c *Client) ReadDir(ctx context.Context, dir Path) ([]string, error) {
	var names []string
	err := c.list(ctx, dir, "/", func(out *s3.ListObjectsV2Output) {
		for _, p := range out.CommonPrefixes {
			names = append(names, strings.TrimSuffix(aws.ToString(p.Prefix), "/"))
		}
		for _, o := range out.Contents {
			names = append(names, aws.ToString(o.Key))
		}
	})
	if err != nil {
		return nil, err
	}
	valid := names[:0]
	for _, key := range names {
		if name, ok := dir.below(key); ok && !strings.Contains(name, "/") {
			valid = append(valid, name)
		}
	}
	if len(valid) == 0 {
		return nil, fmt.Errorf("list %s: %w", dir, fs.ErrNotExist)
	}
	slices.Sort(valid)
	return slices.Compact(valid), nil
}

// List describes all objects in a directory and those below it, sorted by key. Objects whose keys are no valid paths
// are left out.
func (c *Client) List(ctx context.Context, dir Path) ([]Info, error) {
	var all []Info
	err := c.list(ctx, dir, "", func(out *s3.ListObjectsV2Output) {
		for _, o := range out.Contents {
			key := aws.ToString(o.Key)
			if _, ok := dir.below(key); ok {
				all = append(all, Info{Path{dir.Bucket, key}, aws.ToInt64(o.Size), aws.ToTime(o.LastModified), aws.ToString(o.ETag)})
			}
		}
	})
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Path.Key, b.Path.Key) })
	return all, err
}

// list calls page with each page of objects.
func (c *Client) list(ctx context.Context, dir Path, delimiter string, page func(*s3.ListObjectsV2Output)) error {
	in := &s3.ListObjectsV2Input{Bucket: &dir.Bucket, Prefix: aws.String(dir.prefix())}
	if delimiter != "" {
		in.Delimiter = &delimiter
	}
	for n := 0; ; {
		var out *s3.ListObjectsV2Output
		err := c.do(ctx, "list", dir, 0, func(ctx context.Context, api *s3.Client) (err error) {
			out, err = api.ListObjectsV2(ctx, in)
			return err
		})
		if err != nil {
			return err
		}
		page(out)
		n += max(leastPage, len(out.Contents)+len(out.CommonPrefixes))
		last := in.ContinuationToken
		if in.ContinuationToken = out.NextContinuationToken; !aws.ToBool(out.IsTruncated) {
			return nil
		}
		if in.ContinuationToken == nil || aws.ToString(last) == *in.ContinuationToken || n > maxListed {
			return fmt.Errorf("list %s: %w: its list of objects does not end", dir, ErrUnavailable)
		}
	}
}

// noUploads are answers of stores that do not list uploads, or not to these credentials.
var noUploads = []int{http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}

// Upload is an unfinished multipart upload.
type Upload struct {
	Path  Path
	Began time.Time // by the store's clock; zero: unknown
	id    string
}

// Uploads lists the unfinished uploads in a directory. A store that does not say has none: a rule of the bucket deletes
// them with time.
func (c *Client) Uploads(ctx context.Context, dir Path) ([]Upload, error) {
	return c.uploads(ctx, dir, dir.prefix())
}

// uploads lists the unfinished uploads in a directory of keys with a prefix.
func (c *Client) uploads(ctx context.Context, dir Path, prefix string) (all []Upload, err error) {
	in := &s3.ListMultipartUploadsInput{Bucket: &dir.Bucket, Prefix: &prefix}
	for n := 0; n < maxListed; {
		var out *s3.ListMultipartUploadsOutput
		err := c.do(ctx, "list the uploads in", dir, 0, func(ctx context.Context, api *s3.Client) (err error) {
			out, err = api.ListMultipartUploads(ctx, in)
			if status, _ := answer(err); slices.Contains(noUploads, status) {
				out, err = &s3.ListMultipartUploadsOutput{}, nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		n += max(leastPage, len(out.Uploads))
		for _, u := range out.Uploads {
			key := aws.ToString(u.Key)
			if _, ok := dir.below(key); ok {
				all = append(all, Upload{Path{dir.Bucket, key}, aws.ToTime(u.Initiated), aws.ToString(u.UploadId)})
			}
		}
		if !aws.ToBool(out.IsTruncated) || len(out.Uploads) == 0 {
			break
		}
		in.KeyMarker, in.UploadIdMarker = out.NextKeyMarker, out.NextUploadIdMarker
	}
	return all, nil
}

// RemoveUpload ends an unfinished upload. It succeeds if there is none.
func (c *Client) RemoveUpload(ctx context.Context, u Upload) error { return c.abort(ctx, u.Path, u.id) }

func (c *Client) abort(ctx context.Context, at Path, id string) error {
	return c.do(ctx, "stop the upload of", at, 0, func(ctx context.Context, api *s3.Client) error {
		_, err := api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &at.Bucket, Key: &at.Key, UploadId: &id})
		if status, _ := answer(err); status == http.StatusNotFound {
			return nil
		}
		return err
	})
}
