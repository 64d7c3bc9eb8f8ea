package render

import "fmt"

// compose renders a service per host. Without an image it adds the Dockerfile of one.
func compose(d *description) ([]File, error) {
	d.inContainer()
	nodes := make([]string, d.Hosts)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("%s-%d", d.Name, i)
	}
	build := d.Image == ""
	if build {
		d.Image = d.Name
	}
	more := map[string]any{"args": d.launch(fmt.Sprintf("%s:%d", nodes[0], d.port())), "nodes": nodes, "build": build}
	type source struct{ name, template string }
	list := []source{{"compose.yaml", "compose.yaml"}}
	if build {
		list = append(list, source{"Dockerfile", "Dockerfile"}, source{".dockerignore", "dockerignore"})
	}
	var files []File
	for _, s := range list {
		f, err := d.file(s.name, s.template, 0o644, more)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}
