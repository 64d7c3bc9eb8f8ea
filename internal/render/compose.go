package render

import "fmt"

// compose renders a service per host. Without an image it adds the Dockerfile of one.
func compose(d *description) ([]File, error) {
	d.inContainer()
	type host struct{ Name string }
	var hosts []host
	for i := range d.Hosts {
		hosts = append(hosts, host{fmt.Sprintf("%s-%d", d.Name, i)})
	}
	build := d.Image == ""
	if build {
		d.Image = d.Name
	}
	data := struct {
		*description
		Args  []string
		Nodes []host
		Build bool
	}{d, d.launch(fmt.Sprintf("%s:%d", hosts[0].Name, d.port())), hosts, build}
	type source struct{ name, template string }
	list := []source{{"compose.yaml", "compose.yaml"}}
	if build {
		list = append(list, source{"Dockerfile", "Dockerfile"}, source{".dockerignore", "dockerignore"})
	}
	var files []File
	for _, s := range list {
		f, err := file(s.name, s.template, 0o644, data)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}
