package objectstoretest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (a *answer) xml(v any) {
	b, err := xml.Marshal(v)
	if err != nil {
		panic(err)
	}
	a.header.Set("Content-Type", "application/xml")
	a.body = append([]byte(xml.Header), b...)
}

func (s *Server) create(a *answer, key string) {
	s.ids++
	id := fmt.Sprintf("upload-%d", s.ids)
	s.uploads[id] = &upload{key, map[int][]byte{}}
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

func (s *Server) listUploads(a *answer, prefix string) {
	type entry struct{ Key, UploadId string }
	out := struct {
		XMLName     xml.Name `xml:"ListMultipartUploadsResult"`
		IsTruncated bool
		Upload      []entry
	}{}
	for _, id := range slices.Sorted(maps.Keys(s.uploads)) {
		if strings.HasPrefix(s.uploads[id].key, prefix) {
			out.Upload = append(out.Upload, entry{s.uploads[id].key, id})
		}
	}
	a.xml(out)
}

// pageSize is small, so that tests see several pages.
const pageSize = 7

func (s *Server) list(a *answer, q url.Values) {
	type content struct {
		Key          string
		Size         int
		ETag         string
		LastModified string
	}
	type prefix struct{ Prefix string }
	out := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []content
		CommonPrefixes        []prefix
	}{}
	under, delimiter, after := q.Get("prefix"), q.Get("delimiter"), q.Get("continuation-token")
	last := ""
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		rest, ok := strings.CutPrefix(key, under)
		if !ok {
			continue
		}
		name, dir := key, false
		if first, _, found := strings.Cut(rest, delimiter); delimiter != "" && found {
			name, dir = under+first+delimiter, true
		}
		if name <= after || name == last {
			continue
		}
		if len(out.Contents)+len(out.CommonPrefixes) == pageSize {
			out.IsTruncated, out.NextContinuationToken = true, last
			break
		}
		last = name
		o := s.objects[key]
		if dir {
			out.CommonPrefixes = append(out.CommonPrefixes, prefix{name})
		} else {
			out.Contents = append(out.Contents, content{key, len(o.data), o.tag, o.modified.Format("2006-01-02T15:04:05.000Z")})
		}
	}
	a.xml(out)
}
