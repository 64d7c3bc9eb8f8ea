package objectstore

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// signing chooses whether a request is signed. Only if nothing names credentials, and this machine has no role that it
// can be asked for, requests are not. It is safe for concurrent use.
type signing struct {
	signed, unsigned *s3.Client
	from             aws.CredentialsProvider // which keeps them until they expire; nil: those of the options

	mu   sync.Mutex
	none error // why there is no role; nil: not known
}

// client returns the client for the next request.
func (s *signing) client(ctx context.Context) (*s3.Client, error) {
	if s.from == nil {
		return s.signed, nil
	}
	if s.missing() != nil {
		return s.unsigned, nil
	}
	_, err := s.from.Retrieve(ctx)
	switch {
	case err == nil:
		return s.signed, nil
	case ctx.Err() == nil && aws.IsCredentialsProvider(s.from, (*ec2rolecreds.Provider)(nil)): // the last of all sources
		s.found(oneLine(err))
		return s.unsigned, nil
	}
	return nil, credentialsError{oneLine(err)}
}

// missing returns why there are no credentials; nil if there are some, or it is not known.
func (s *signing) missing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.none
}

// found notes why there are none; nil: the next request asks again.
func (s *signing) found(none error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.none = none
}

// refused reports whether the store wants credentials, or others.
func refused(err error) bool {
	status, _ := answer(err)
	return status == http.StatusForbidden || status == http.StatusUnauthorized
}

// credentialsError is an error of what provides credentials. Its status is not one of the store, so it does not wrap.
type credentialsError struct{ error }

func (e credentialsError) Error() string { return "no credentials: " + e.error.Error() }

// transient reports whether a repeated request for credentials may succeed: no file and no login changes by itself.
func (e credentialsError) transient() bool {
	var network *net.OpError
	var answered interface{ HTTPStatusCode() int }
	if errors.As(e.error, &answered) {
		status := answered.HTTPStatusCode()
		return status == http.StatusTooManyRequests || status >= 500
	}
	return errors.As(e.error, &network)
}
