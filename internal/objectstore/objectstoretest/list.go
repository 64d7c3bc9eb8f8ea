package objectstoretest

import (
	"encoding/xml"
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

// timeFormat is that of times in lists.
const timeFormat = "2006-01-02T15:04:05.000Z"

func (s *Server) listUploads(a *answer, prefix string) {
	type entry struct{ Key, UploadId, Initiated string }
	out := struct {
		XMLName     xml.Name `xml:"ListMultipartUploadsResult"`
		IsTruncated bool
		Upload      []entry
	}{}
	for _, id := range slices.Sorted(maps.Keys(s.uploads)) {
		if strings.HasPrefix(s.uploads[id].key, prefix) {
			out.Upload = append(out.Upload, entry{s.uploads[id].key, id, s.uploads[id].began.UTC().Format(timeFormat)})
		}
	}
	a.xml(out)
}

func (s *Server) listParts(a *answer, key string, q url.Values) {
	type entry struct {
		PartNumber     int
		Size           int
		ETag           string
		ChecksumCRC32C string `xml:",omitempty"`
	}
	out := struct {
		XMLName              xml.Name `xml:"ListPartsResult"`
		UploadId             string
		IsTruncated          bool
		NextPartNumberMarker int `xml:",omitempty"`
		Part                 []entry
	}{UploadId: q.Get("uploadId")}
	if s.noParts != 0 {
		a.fail(s.noParts, "NotImplemented", "Parts are not listed here.")
		return
	}
	u := s.uploads[out.UploadId]
	if u == nil || u.key != key {
		a.fail(http.StatusNotFound, "NoSuchUpload", "The upload does not exist.")
		return
	}
	after, _ := strconv.Atoi(q.Get("part-number-marker")) // none is 0
	for _, number := range slices.Sorted(maps.Keys(u.parts)) {
		if number <= after {
			continue
		}
		if len(out.Part) == pageSize {
			out.IsTruncated, out.NextPartNumberMarker = true, out.Part[pageSize-1].PartNumber
			break
		}
		p := entry{number, len(u.parts[number]), newObject(u.parts[number]).tag, Checksum(u.parts[number])}
		if s.noSums {
			p.ChecksumCRC32C = ""
		}
		out.Part = append(out.Part, p)
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
			out.Contents = append(out.Contents, content{key, len(o.data), o.tag, o.modified.Format(timeFormat)})
		}
	}
	a.xml(out)
}
