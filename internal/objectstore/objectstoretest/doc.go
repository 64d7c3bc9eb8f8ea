// Package objectstoretest is an object store in memory that speaks the S3 protocol and fails on demand, for tests.
//
//	srv := objectstoretest.Start(t)   // sets the variables that clients read; New(t) and srv.Client(t) set none
//	dir := "s3://" + objectstoretest.Bucket + "/run"
//	srv.Fail(objectstoretest.Failure{Kind: objectstoretest.CutAfter, From: 3, To: 3})
//
// A Server checks signatures of content and checksums, has multipart uploads and conditional writes, and lists objects and parts
// in short pages.
package objectstoretest
