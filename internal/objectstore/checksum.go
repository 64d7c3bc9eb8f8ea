package objectstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Checksum is a store's checksum of all bytes of an object. The zero value is of a store that says nothing.
type Checksum struct {
	algorithm string
	Want      string // in hexadecimal; "": unknown
}

// nvme is the polynomial of CRC-64/NVME, reversed.
var nvme = crc64.MakeTable(0x9a6c9329ac4bc9b5)

// New returns the computation of the checksum.
func (c Checksum) New() hash.Hash {
	switch c.algorithm {
	case "CRC-64":
		return crc64.New(nvme)
	case "SHA-256":
		return sha256.New()
	case "CRC-32":
		return crc32.NewIEEE()
	}
	return crc32.New(castagnoli)
}

// Checksum describes an object, with a checksum if the store has one of all its bytes.
func (c *Client) Checksum(ctx context.Context, at Path) (Info, Checksum, error) {
	info, out, err := c.head(ctx, at, types.ChecksumModeEnabled)
	if err != nil || out.ChecksumType == types.ChecksumTypeComposite { // a checksum of those of its parts
		return info, Checksum{}, err
	}
	for _, sum := range []struct {
		algorithm string
		value     *string
	}{{"CRC-32C", out.ChecksumCRC32C}, {"CRC-64", out.ChecksumCRC64NVME}, {"SHA-256", out.ChecksumSHA256}, {"CRC-32", out.ChecksumCRC32}} {
		x := Checksum{algorithm: sum.algorithm}
		b, err := base64.StdEncoding.DecodeString(aws.ToString(sum.value))
		if err == nil && !strings.Contains(aws.ToString(sum.value), "-") && len(b) == x.New().Size() {
			x.Want = hex.EncodeToString(b)
			return info, x, nil
		}
	}
	return info, Checksum{}, nil
}

func (c *Client) head(ctx context.Context, at Path, mode types.ChecksumMode) (info Info, out *s3.HeadObjectOutput, err error) {
	err = c.do(ctx, "look up", at, 0, func(ctx context.Context, api *s3.Client) (err error) {
		out, err = api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &at.Bucket, Key: &at.Key, ChecksumMode: mode})
		if err == nil {
			info = Info{at, aws.ToInt64(out.ContentLength), aws.ToTime(out.LastModified), aws.ToString(out.ETag)}
		}
		return err
	})
	return info, out, err
}
