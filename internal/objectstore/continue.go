package objectstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Continue is Create for an object that another Writer of Continue began and did not end, in this process or an earlier one:
// parts that the store has with the same number, size and CRC-32C are not sent again. Close without Commit leaves what was
// sent to the next Continue, or to RemoveAll.
func (c *Client) Continue(ctx context.Context, at Path, size int64) *Writer {
	w := c.Create(ctx, at, size)
	w.continues = true
	return w
}

// Kept is the number of bytes that an earlier Writer had sent (Continue). It is final after Commit.
func (w *Writer) Kept() int64 { return w.kept.Load() }

// takeUp continues the newest unfinished upload of the object, if the store lists its parts, and ends the others.
func (w *Writer) takeUp() error {
	// Some stores list the uploads of a key, but not those below a prefix.
	all, err := w.c.uploads(w.ctx, Path{Bucket: w.at.Bucket}, w.at.Key)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(u Upload) bool { return u.Path != w.at })
	slices.SortFunc(all, func(a, b Upload) int { return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(b.id, a.id)) })
	for i, u := range all {
		if i == 0 {
			sent, err := w.c.parts(w.ctx, w.at, u.id)
			if err != nil {
				return err
			}
			if sent != nil {
				w.id, w.sent = u.id, sent
				continue
			}
		}
		if err := w.c.RemoveUpload(w.ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// had returns a part that the earlier upload has already. A part without a checksum in the list is none: an ETag is not
// always a digest.
func (w *Writer) had(number int32, size int, sum *string) (types.CompletedPart, bool) {
	p, ok := w.sent[number]
	if !ok || aws.ToInt64(p.Size) != int64(size) || aws.ToString(p.ChecksumCRC32C) != *sum || aws.ToString(p.ETag) == "" {
		return types.CompletedPart{}, false
	}
	return types.CompletedPart{PartNumber: &number, ETag: p.ETag, ChecksumCRC32C: p.ChecksumCRC32C}, true
}

// parts lists the parts of an unfinished upload by number; nil if the store does not say, or has no such upload.
func (c *Client) parts(ctx context.Context, at Path, id string) (map[int32]types.Part, error) {
	in := &s3.ListPartsInput{Bucket: &at.Bucket, Key: &at.Key, UploadId: &id}
	all := map[int32]types.Part{}
	for n := 0; n < maxParts; {
		var out *s3.ListPartsOutput
		err := c.do(ctx, "list the parts of", at, 0, func(ctx context.Context, api *s3.Client) (err error) {
			out, err = api.ListParts(ctx, in)
			if status, _ := answer(err); status >= 300 && !transient(err) {
				out, err = nil, nil
			}
			return err
		})
		if err != nil || out == nil {
			return nil, err
		}
		for _, p := range out.Parts {
			all[aws.ToInt32(p.PartNumber)] = p
		}
		next := aws.ToString(out.NextPartNumberMarker)
		if !aws.ToBool(out.IsTruncated) || next == "" || next == aws.ToString(in.PartNumberMarker) {
			break
		}
		in.PartNumberMarker = &next
		n += max(1, len(out.Parts))
	}
	return all, nil
}
