package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// materials is the bill of materials of a build in CycloneDX 1.6: the program and each linked
// module with its package URL, hash and licenses. It has no serial number, so that it is
// reproducible.
func materials(b *build, modules []module) ([]byte, error) {
	program := cyclonedx.Component{
		BOMRef: purl("trireme", b.version), Type: cyclonedx.ComponentTypeApplication, Name: "trireme", Version: b.version,
		PackageURL: purl("trireme", b.version), Licenses: choices([]string{"Apache-2.0"}),
		Properties: &[]cyclonedx.Property{{Name: "goos", Value: b.goos}, {Name: "goarch", Value: b.goarch}, {Name: "go", Value: b.info.GoVersion}},
	}
	var components []cyclonedx.Component
	var refs []string
	for _, m := range modules {
		c := cyclonedx.Component{
			BOMRef: purl(m.Path, m.Version), Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl(m.Path, m.Version),
		}
		var ids []string
		for _, l := range m.licenses {
			ids = append(ids, l.ids...)
		}
		slices.Sort(ids)
		c.Licenses = choices(slices.Compact(ids))
		if m.sum != "" {
			h, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.sum, "h1:"))
			if err != nil {
				return nil, fmt.Errorf("module %s: hash %q: %w", m.Path, m.sum, err)
			}
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(h)}}
		}
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: b.time.UTC().Format("2006-01-02T15:04:05Z"), Component: &program}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}

func choices(ids []string) *cyclonedx.Licenses {
	var l cyclonedx.Licenses
	for _, id := range ids {
		l = append(l, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &l
}

// purl is the package URL of a Go module.
func purl(path, version string) string { return "pkg:golang/" + path + "@" + url.QueryEscape(version) }
