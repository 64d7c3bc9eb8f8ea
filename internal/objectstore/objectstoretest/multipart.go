package objectstoretest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

type upload struct {
	key   string
	began time.Time
	parts map[int][]byte
}

func (s *Server) create(a *answer, key string) {
	s.ids++
	id := fmt.Sprintf("upload-%d", s.ids)
	s.uploads[id] = &upload{key, time.Now(), map[int][]byte{}}
	a.xml(struct {
		XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
		Bucket   string
		Key      string
		UploadId string
	}{Bucket: Bucket, Key: key, UploadId: id})
}

func (s *Server) part(a *answer, q url.Values, body []byte) {
	u := s.uploads[q.Get("uploadId")]
	if u == nil {
		a.fail(http.StatusNotFound, "NoSuchUpload", "The upload does not exist.")
		return
	}
	number, err := strconv.Atoi(q.Get("partNumber"))
	if err != nil || number < 1 || number > 10_000 {
		a.fail(http.StatusBadRequest, "InvalidArgument", "The number of the part is not valid.")
		return
	}
	u.parts[number] = bytes.Clone(body)
	s.received += int64(len(body))
	a.header.Set("ETag", newObject(body).tag)
}

func (s *Server) complete(a *answer, key, id string, body []byte) {
	var in struct {
		Part []struct {
			PartNumber     int
			ETag           string
			ChecksumCRC32C string
		}
	}
	u := s.uploads[id]
	if u == nil || u.key != key {
		a.fail(http.StatusNotFound, "NoSuchUpload", "The upload does not exist.")
		return
	}
	if err := xml.Unmarshal(body, &in); err != nil || len(in.Part) == 0 {
		a.fail(http.StatusBadRequest, "MalformedXML", "The XML is not valid.")
		return
	}
	var data []byte
	for i, p := range in.Part {
		b, ok := u.parts[p.PartNumber]
		if !ok || newObject(b).tag != p.ETag || p.ChecksumCRC32C != Checksum(b) || i > 0 && p.PartNumber <= in.Part[i-1].PartNumber {
			a.fail(http.StatusBadRequest, "InvalidPart", "A part is missing or another one.")
			return
		}
		data = append(data, b...)
	}
	delete(s.uploads, id)
	s.objects[key] = newObject(data)
	a.xml(struct {
		XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
		Key     string
		ETag    string
	}{Key: key, ETag: s.objects[key].tag})
}
