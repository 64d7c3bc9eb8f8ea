package render

import (
	"errors"
	"fmt"

	"trireme/fault"
)

// kubernetes renders an Indexed Job, whose pod 0 runs the launchers' store, with the headless Service that
// gives pods their names, and the claim of their volume.
func kubernetes(d *description) ([]File, error) {
	if d.Image == "" {
		return nil, fault.Try(errors.New("--render kubernetes needs an image"), "%s", "make image, push it to a registry of your cluster, and --render_image REGISTRY/trireme:TAG")
	}
	d.inContainer()
	endpoint := fmt.Sprintf("%s-0.%s:%d", d.Name, d.Name, d.port())
	f, err := d.file(d.Name+".yaml", "kubernetes.yaml", 0o644, map[string]any{
		"args": d.launch(endpoint), "seconds": d.Hours * 3600,
	})
	return []File{f}, err
}
