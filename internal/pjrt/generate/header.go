package main

import (
	"fmt"
	"regexp"
	"strings"
)

// functions are the entries of the table that the binding calls, without PJRT_.
var functions = strings.Fields(`
	Error_Destroy Error_Message Error_GetCode Plugin_Initialize Plugin_Attributes
	Event_Destroy Event_IsReady Event_Error Event_Await
	Client_Create Client_Destroy Client_PlatformName Client_ProcessIndex Client_PlatformVersion
	Client_AddressableDevices Client_Compile Client_BufferFromHostBuffer
	DeviceDescription_Id DeviceDescription_Kind Device_GetDescription Device_MemoryStats
	Executable_Destroy Executable_NumOutputs Executable_OptimizedProgram Executable_Serialize
	Executable_Fingerprint Executable_OutputElementTypes Executable_OutputDimensions
	Executable_GetCompiledMemoryStats Executable_DeserializeAndLoad
	LoadedExecutable_Destroy LoadedExecutable_GetExecutable LoadedExecutable_Execute
	Buffer_Destroy Buffer_ElementType Buffer_Dimensions Buffer_IsDeleted Buffer_ToHostBuffer
	TopologyDescription_Create TopologyDescription_Destroy Compile`)

// plain are the structs that the binding uses besides the arguments of functions.
var plain = strings.Fields(`Api_Version NamedValue Program ExecuteOptions Buffer_MemoryLayout_Tiled Buffer_MemoryLayout
	KeyValueGetCallback_Args KeyValueTryGetCallback_Args KeyValuePutCallback_Args`)

// exact are the structs without spare bytes: those in arrays, in the table and in a plug-in's memory.
var exact = map[string]bool{
	"Api_Version": true, "NamedValue": true, "Buffer_MemoryLayout_Tiled": true,
	"KeyValueGetCallback_Args": true, "KeyValueTryGetCallback_Args": true, "KeyValuePutCallback_Args": true,
}

// enums are the enumerations whose values the binding uses.
var enums = []string{"Buffer_Type", "Buffer_MemoryLayout_Type", "NamedValue_Type", "HostBufferSemantics", "Error_Code"}

// header has the structs and enumerations of pjrt_c_api.h that the binding uses, names without PJRT_.
type header struct {
	structs []structure
	enums   map[string][]string
}

type structure struct {
	name   string
	fields []field
}

// field is a member. A union is one member: its first alternative, with the C type "union", or with that
// alternative's type if it is a struct.
type field struct{ name, typ string }

var (
	comments = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	unions   = regexp.MustCompile(`(?s)union\s*\{\s*([^;]*);.*?\}`)
	callback = regexp.MustCompile(`^.*\(\*(\w+)\)\(.*\)$`)
	member   = regexp.MustCompile(`^(.*?)(\w+)$`)
)

// parse reads the structs and enumerations that the binding uses.
func parse(text string) (*header, error) {
	text = comments.ReplaceAllString(text, "")
	h := &header{enums: map[string][]string{}}
	names := append([]string(nil), plain...)
	for _, f := range functions {
		names = append(names, f+"_Args")
	}
	for _, name := range names {
		body, ok := between(text, "struct PJRT_"+name+" {", "\n}")
		if !ok {
			return nil, fmt.Errorf("the header has no struct PJRT_%s", name)
		}
		s := structure{name: name}
		body = unions.ReplaceAllStringFunc(body, func(u string) string {
			first := member.FindStringSubmatch(strings.TrimSpace(unions.FindStringSubmatch(u)[1]))
			if typ := strings.TrimSpace(first[1]); strings.HasPrefix(typ, "PJRT_") {
				return typ + " " + first[2] // a struct, the longest alternative
			}
			return "union " + first[2]
		})
		for part := range strings.SplitSeq(body, ";") {
			part = strings.Join(strings.Fields(part), " ")
			if part == "" {
				continue
			}
			if m := callback.FindStringSubmatch(part); m != nil {
				s.fields = append(s.fields, field{m[1], "callback"})
				continue
			}
			m := member.FindStringSubmatch(part)
			if m == nil {
				return nil, fmt.Errorf("PJRT_%s: member %q is not understood", name, part)
			}
			s.fields = append(s.fields, field{m[2], strings.TrimSpace(m[1])})
		}
		h.structs = append(h.structs, s)
	}
	for _, name := range enums {
		end := strings.Index(text, "} PJRT_"+name+";")
		if end < 0 {
			return nil, fmt.Errorf("the header has no enumeration PJRT_%s", name)
		}
		body := text[strings.LastIndex(text[:end], "{")+1 : end]
		for part := range strings.SplitSeq(body, ",") {
			if f := strings.Fields(part); len(f) > 0 {
				h.enums[name] = append(h.enums[name], strings.TrimPrefix(f[0], "PJRT_"))
			}
		}
	}
	return h, nil
}

// between returns the text after start, up to end.
func between(text, start, end string) (string, bool) {
	_, rest, ok := strings.Cut(text, start)
	if !ok {
		return "", false
	}
	body, _, ok := strings.Cut(rest, end)
	return body, ok
}
