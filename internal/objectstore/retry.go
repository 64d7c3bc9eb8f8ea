package objectstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"trireme/fault"
)

var (
	// ErrUnavailable is wrapped by errors of a store that did not answer or refused.
	ErrUnavailable = errors.New("the object store is not available")
	// ErrExists is wrapped by the error of PutNew if there is another object.
	ErrExists = errors.New("there is an object of that name")

	// ErrReplaced is wrapped by the error of a read of an object that is another one now.
	ErrReplaced = errors.New("it was replaced while it was read")

	errDamaged = errors.New("the store's checksum is not that of the bytes sent")
	errLimit   = errors.New("the store took too long")
)

// do calls f until it succeeds, ctx ends, the error is not transient, or there were enough attempts. Each attempt has
// a time limit for a number of bytes. doing is a verb for errors. A store that refuses a request without a signature is
// asked again once, after another look for credentials.
func (c *Client) do(ctx context.Context, doing string, at Path, bytes int64, f func(ctx context.Context, api *s3.Client) error) error {
	began, again := time.Now(), false
	for n := 1; ; n++ {
		limit := c.o.Limit + time.Duration(bytes)*time.Second/slowest
		one, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
		api, err := c.sign.client(one)
		if err == nil {
			err = f(one, api)
		}
		if err != nil && ctx.Err() == nil && one.Err() != nil {
			err = fmt.Errorf("%w: over %v", errLimit, limit.Round(time.Second))
		}
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s %s: %w", doing, at, context.Cause(ctx))
		case refused(err) && api == c.sign.unsigned && !again: // perhaps there is a role now, or its first request failed
			again = true
			c.sign.found(nil)
			continue
		case !transient(err):
			return c.explain(doing, at, err, "")
		case n == c.o.Attempts:
			return c.explain(doing, at, err, fmt.Sprintf(" (%d attempts in %.1f s)", n, time.Since(began).Seconds()))
		}
		most := min(c.o.Wait<<min(n-1, 20), maxWait)
		select {
		case <-time.After(rand.N(most + 1)):
		case <-ctx.Done():
		}
	}
}

// transientCodes are errors that a repeated request may not have, whatever their status.
var transientCodes = []string{
	"BadDigest", "ConditionalRequestConflict", "IncompleteBody", "InternalError", "OperationAborted", "RequestTimeout", "RequestTimeoutException",
	"ServiceUnavailable", "SlowDown", "SlowDownRead", "SlowDownWrite", "Throttling", "ThrottlingException", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch",
}

// transient reports whether the request may succeed if it is repeated.
func transient(err error) bool {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var build *smithy.SerializationError
	var login credentialsError
	status, code := answer(err)
	switch {
	case isPermanent(err):
		return false
	case errors.As(err, &login):
		return login.transient()
	case slices.Contains(transientCodes, code):
		return true
	case status != 0 && status < 300: // its body was cut
		return true
	case status != 0:
		return status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
	}
	return !errors.As(err, &build) && !errors.As(err, &cert) && !(errors.As(err, &dns) && dns.IsNotFound)
}

// permanent is an error of this package that no other attempt avoids, with what to try.
type permanent struct {
	error
	try string
}

func (e permanent) Unwrap() error { return e.error }

func isPermanent(err error) bool {
	var p permanent
	return errors.As(err, &p)
}

// answer returns the status and the error code of the store's answer; 0 and "" without one.
func answer(err error) (status int, code string) {
	var r *awshttp.ResponseError
	if errors.As(err, &r) && r.Response != nil {
		status = r.HTTPStatusCode()
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	return status, code
}

// explain returns an error of one line, with what to try.
func (c *Client) explain(doing string, at Path, err error, attempts string) error {
	status, code := answer(err)
	what := oneLine(err)
	var api smithy.APIError
	if errors.As(err, &api) {
		message := strings.TrimSuffix(strings.Join(strings.Fields(api.ErrorMessage()), " "), ".")
		what = fmt.Errorf("%d %s: %s", status, code, message)
		if message == "" || message == code {
			what = fmt.Errorf("%d %s", status, code)
		}
	}
	missing := status == http.StatusNotFound && code != "NoSuchBucket" && code != "NoSuchUpload"
	if missing {
		return fmt.Errorf("%s %s: %w", doing, at, fs.ErrNotExist)
	}
	if p := (permanent{}); errors.As(err, &p) {
		return fault.Try(fmt.Errorf("%s %s: %w", doing, at, p.error), "%s", p.try)
	}
	where := c.Endpoint()
	failed := fmt.Errorf("%s %s: %w: %w%s", doing, at, ErrUnavailable, what, attempts)
	var r *awshttp.ResponseError
	region := ""
	if errors.As(err, &r) && r.Response != nil {
		region = r.Response.Header.Get("X-Amz-Bucket-Region")
	}
	var login credentialsError
	switch none := c.sign.missing(); {
	case errors.As(err, &login):
		return fault.Try(failed, "AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a look at what provides them")
	case code == "NoSuchBucket":
		return fault.Try(failed, "the name of a bucket that exists at %s, or AWS_ENDPOINT_URL_S3", where)
	case status == http.StatusMovedPermanently && region != "":
		return fault.Try(failed, "AWS_REGION=%s", region)
	case refused(err) && none != nil:
		return fault.Try(fmt.Errorf("%w; no credentials were found (%w)", failed, none), "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role of this machine")
	case refused(err):
		return fault.Try(failed, "credentials that may list, read, write and delete below it, or another AWS_PROFILE")
	case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
		return fault.Try(failed, "again later, or fewer requests to %s at a time", where)
	case status == 0:
		return fault.Try(failed, "AWS_ENDPOINT_URL_S3 (now %s), or a look at the network", where)
	case status == http.StatusNotImplemented, status == http.StatusMethodNotAllowed:
		return fault.Try(failed, "a store with multipart uploads and conditional writes (If-None-Match)")
	}
	return fault.Try(failed, "a look at the settings of the bucket at %s", where)
}

// oneLine returns an error with its text in one line.
func oneLine(err error) error {
	text := err.Error()
	one := strings.Join(strings.Fields(text), " ")
	if one == text {
		return err
	}
	return lineError{one, err}
}

type lineError struct {
	text string
	err  error
}

func (e lineError) Error() string { return e.text }
func (e lineError) Unwrap() error { return e.err }
