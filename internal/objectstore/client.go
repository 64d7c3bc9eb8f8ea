package objectstore

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
)

// Options are limits of a Client. The zero value is for real stores.
type Options struct {
	Attempts  int           // of one request; 0 is 10
	Wait      time.Duration // longest wait before the second attempt; it doubles for each later one, up to 20 s; 0 is 100 ms
	Limit     time.Duration // of an attempt, beside the time of its bytes at slowest; 0 is 30 s
	PartBytes int64         // of a part of an upload and of a block that is read ahead; 0 is 8 MiB

	// Endpoint and the keys replace those of the environment; "" for none.
	Endpoint, AccessKey, SecretKey string
}

const (
	maxWait = 20 * time.Second
	slowest = 128 << 10 // bytes per second; an attempt that is slower is repeated
	// Buffers of an upload or a reader: one that is filled or read, the others in requests.
	buffers = 4
	// Memory is the size of the buffers of an upload or a reader, in bytes.
	Memory = buffers * partBytes
	// partBytes is above the least size of a part in S3, 5 MiB.
	partBytes = 8 << 20
)

// Client is a connection to an object store. It is safe for concurrent use.
type Client struct {
	o        Options
	endpoint string // "" for AWS
	sign     signing

	mu      sync.Mutex
	reading []*Object // that have blocks read ahead, the last one used last
}

// connections are shared by all clients of the process.
var connections = sync.OnceValue(func() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost = 64
		t.IdleConnTimeout = 30 * time.Second
	})
})

// New returns a Client with the endpoint, region and credentials of the environment: AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL, AWS_REGION, AWS_PROFILE, AWS_ACCESS_KEY_ID and so on, the files in ~/.aws, and the roles of
// instances and containers. Requests for them are part of the first request to the store and repeated like it. Without
// any, requests are not signed, as for public buckets.
func New(ctx context.Context, o Options) (*Client, error) {
	for _, d := range []struct{ v, or *time.Duration }{{&o.Wait, ptr(100 * time.Millisecond)}, {&o.Limit, ptr(30 * time.Second)}} {
		if *d.v == 0 {
			*d.v = *d.or
		}
	}
	if o.Attempts == 0 {
		o.Attempts = 10
	}
	if o.PartBytes == 0 {
		o.PartBytes = partBytes
	}
	c := &Client{o: o}
	cfg, err := c.config(ctx)
	if err != nil {
		return nil, err
	}
	c.sign.signed = s3.NewFromConfig(cfg, func(s *s3.Options) {
		s.Retryer = aws.NopRetryer{} // Client.do repeats requests
		// Stores of other makers know no checksums in trailers. Uploads have one in a header.
		s.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		s.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		if o.Endpoint != "" {
			s.BaseEndpoint = &o.Endpoint
		}
		if s.BaseEndpoint != nil {
			c.endpoint = *s.BaseEndpoint
			s.UsePathStyle = pathStyle(c.endpoint)
		}
		s.HTTPClient = bounded{s.HTTPClient}
	})
	c.sign.unsigned = s3.New(c.sign.signed.Options(), func(s *s3.Options) { s.Credentials = aws.AnonymousCredentials{} })
	return c, nil
}

// Endpoint is the address of the store.
func (c *Client) Endpoint() string {
	if c.endpoint == "" {
		return "AWS"
	}
	return c.endpoint
}

// config is the configuration of the environment, or of the options.
func (c *Client) config(ctx context.Context) (aws.Config, error) {
	if c.o.Endpoint != "" {
		return aws.Config{Region: "us-east-1", HTTPClient: connections(), Credentials: credentials.NewStaticCredentialsProvider(c.o.AccessKey, c.o.SecretKey, "")}, nil
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(connections()), config.WithLogger(logging.Nop{}))
	if err != nil {
		return cfg, fmt.Errorf("configuration of AWS: %w", oneLine(err))
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // what other stores expect; AWS names the right one in its answer
	}
	c.sign.from = cfg.Credentials
	return cfg, nil
}

func ptr[T any](v T) *T { return &v }

// pathStyle reports whether the bucket is in the path at an endpoint, not in the host's name. Names of buckets
// below a store's own name need an entry in the DNS, which few have.
func pathStyle(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err != nil || !strings.HasSuffix(u.Hostname(), ".amazonaws.com")
}
