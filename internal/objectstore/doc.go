// Package objectstore reads and writes objects of stores that speak the S3 protocol.
//
// A path s3://BUCKET/KEY is parsed by Parse; IsURL reports such a path, and Join works for those of the file
// system too. A Client takes its endpoint, region and credentials from where the AWS command line takes them:
// environment variables, the files of ~/.aws, and the roles of instances and containers.
//
//	c, err := objectstore.New(ctx, objectstore.Options{})
//	w := c.Create(ctx, at, size)  // a PUT, or a multipart upload in parallel parts
//	w.Write(b); err = w.Commit()
//	w := c.Continue(ctx, at, size) // the same, without the parts that an interrupted one has sent
//	err = c.PutNew(ctx, at, b)    // only if there is no object of that name
//	o, err := c.Open(ctx, at)     // reads ranges, ahead of a sequential reader
//	names, err := c.ReadDir(ctx, at)
//
// Each request has a time limit and is repeated after a transient error: a cut connection, a timeout, status 429
// or 5xx, a wrong checksum. Waits grow exponentially, with full jitter, and the number of attempts is bounded. A
// repeated request continues where the object is: a part of an upload, the rest of a range. Objects are uploaded
// with a CRC-32C per part, which the store verifies and returns, beside the SHA-256 in the signature of the
// request.
//
// Errors are one line with the path and what to try. They wrap fs.ErrNotExist if an object is missing, and
// ErrUnavailable if the store did not answer or refused, which says nothing about the object.
package objectstore
