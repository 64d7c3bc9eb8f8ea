//go:build !aws

package render

import (
	"context"
	"errors"
	"io"

	"trireme/fault"
)

// Apply returns an error: this program was built without the tag aws.
func Apply(context.Context, Job, io.Writer) error {
	return fault.Try(errors.New("--apply: this program was built without the SDK of AWS"), "%s", "go build -tags aws ./cmd/trireme, or launch.sh --apply of --render aws, which uses the AWS CLI")
}
