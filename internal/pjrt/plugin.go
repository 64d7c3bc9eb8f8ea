package pjrt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"trireme/internal/dl"
)

// minMinor is the oldest version of the API, 0.57: the table only grows from there.
const minMinor = 57

// logLevel is the environment variable with the lowest level of messages that plug-ins print.
const logLevel = "TF_CPP_MIN_LOG_LEVEL"

// Plugin is a loaded plug-in.
type Plugin struct {
	path         string
	table        unsafe.Pointer // PJRT_Api
	size         int            // bytes of the table
	major, minor int
	id           func() ([]byte, error) // identity, computed once
}

var (
	loading sync.Mutex
	loaded  = map[string]*Plugin{}
)

// Load opens a plug-in and initializes it, once per file: later calls return the same Plugin. A
// plug-in is never unloaded. The error of a file that is no usable plug-in names the file.
func Load(path string) (*Plugin, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	loading.Lock()
	defer loading.Unlock()
	if p := loaded[path]; p != nil {
		return p, nil
	}
	p, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("plug-in %s: %w", path, err)
	}
	loaded[path] = p
	return p, nil
}

// resolve returns the absolute path of a file without links.
func resolve(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("plug-in %s: no such file", path)
	case err != nil:
		return "", fmt.Errorf("plug-in %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("plug-in %s: not a file", path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

func open(path string) (*Plugin, error) {
	if _, ok := os.LookupEnv(logLevel); !ok {
		if err := os.Setenv(logLevel, "2"); err != nil {
			return nil, err
		}
	}
	if err := checkFile(path); err != nil {
		return nil, fmt.Errorf("cannot be loaded: %w", err)
	}
	library, err := dl.Open(path, true)
	if err != nil {
		return nil, fmt.Errorf("cannot be loaded: %s", strings.TrimPrefix(err.Error(), path+": "))
	}
	get, err := dl.Symbol(library, "GetPjrtApi")
	if err != nil {
		return nil, errors.New("not a PJRT plug-in: it has no function GetPjrtApi")
	}
	table := dl.Call(get)
	if table == 0 {
		return nil, errors.New("GetPjrtApi returned no table of functions")
	}
	p := &Plugin{path: path, table: address(table)}
	p.id = sync.OnceValues(p.identity)
	if p.size = *(*int)(p.table); p.size < versionOffset+int(unsafe.Sizeof(apiVersion{})) {
		return nil, errors.New("its table of functions is too short for a version")
	}
	version := (*apiVersion)(unsafe.Add(p.table, versionOffset))
	p.major, p.minor = int(version.MajorVersion), int(version.MinorVersion)
	if p.major != 0 || p.minor < minMinor {
		return nil, fmt.Errorf("PJRT API %d.%d is not supported: 0.%d or a later 0.x is. try: a current plug-in", p.major, p.minor, minMinor)
	}
	if err := call(p, fnPluginInitialize, &pluginInitializeArgs{}); err != nil {
		return nil, err
	}
	return p, nil
}

// Path returns the file's absolute path without links.
func (p *Plugin) Path() string { return p.path }

// Version returns the version of the PJRT API that the plug-in was built with.
func (p *Plugin) Version() (major, minor int) { return p.major, p.minor }

// Attributes returns what the plug-in says of itself: strings, int64s, []int64s, float32s and bools,
// as "stablehlo_current_version": []int64{1, 13, 3}.
func (p *Plugin) Attributes() (map[string]any, error) {
	var a pluginAttributesArgs
	if err := call(p, fnPluginAttributes, &a); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, v := range sliceAt[namedValue](a.Attributes, a.NumAttributes) {
		out[text(v.Name, v.NameSize)] = v.value()
	}
	return out, nil
}
