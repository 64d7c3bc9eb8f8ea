// Package render writes the files with which other systems start a job: Kubernetes, docker compose, Slurm and
// EC2. Each file runs `trireme launch` once per host, with the same command and without a secret in it.
//
//	files, err := render.Render("kubernetes", render.Job{Command: []string{"trireme", "train", "--config", "run.yaml"}, Nnodes: "2", NprocPerNode: "8", Image: "..."})
//	for _, f := range files { ... }
//
// Render starts nothing. Apply starts the instances of EC2, in programs built with the tag aws.
package render
