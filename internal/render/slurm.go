package render

// slurm renders a batch script, whose step runs a launcher on each host.
func slurm(d *description) ([]File, error) {
	const endpoint, id = "ENDPOINT", "ID"
	d.ID = id
	args := d.launch(endpoint)
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = shell(a)
		if i > 0 && args[i-1] == "--rdzv_endpoint" && a == endpoint {
			words[i] = `"${hosts[0]}:$port"`
		}
		if i > 0 && args[i-1] == "--rdzv_id" && a == id {
			words[i] = `"slurm-$SLURM_JOB_ID"`
		}
	}
	f, err := d.file(d.Name+".sbatch", "slurm.sh", 0o755, map[string]any{"words": words})
	return []File{f}, err
}
