#!/bin/bash
#SBATCH --job-name={{.Name}}
#SBATCH --nodes={{.Least}}{{if .Elastic}}-{{.Hosts}}{{end}}
#SBATCH --ntasks-per-node=1
{{- if .CPUs}}
#SBATCH --cpus-per-task={{.CPUs}}
{{- else}}
#SBATCH --exclusive
{{- end}}
{{- if .MemoryGiB}}
#SBATCH --mem={{.MemoryGiB}}G
{{- else}}
#SBATCH --mem=0
{{- end}}
{{- if .GPUs}}
#SBATCH --gpus-per-node={{.GPUs}}
{{- end}}
{{- if .Hours}}
#SBATCH --time={{.Hours}}:00:00
{{- end}}
#SBATCH --output=%x-%j.log
#SBATCH --signal=TERM@120
#SBATCH --no-requeue
{{- if .Elastic}}
#SBATCH --no-kill
{{- end}}
# A job on {{.Nnodes}} host{{if gt .Hosts 1}}s{{end}}, with one launcher per host, which starts its workers. Two minutes before the time limit
# the run saves a checkpoint and stops with code 75.
#
#   sbatch {{.Name}}.sbatch
set -euo pipefail
{{- if gt .Hosts 1}}

# The first host runs the launchers' store.
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
{{- if .Job.Port}}
port={{.Job.Port}}
{{- else}}
port=$((20000 + SLURM_JOB_ID % 10000)) # jobs that share a host have different ones
{{- end}}
{{- end}}

# The job's secret reaches the launchers in the environment of the step.
export TRIREME_JOB_SECRET="${TRIREME_JOB_SECRET:-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}"
{{- range $name, $value := .Env}}
export {{$name}}={{shell $value}}
{{- end}}

exec srun --ntasks-per-node=1 --kill-on-bad-exit={{if .Elastic}}0{{else}}1{{end}} --export=ALL{{if .CPUs}} --cpus-per-task={{.CPUs}}{{end}} \
    trireme{{range .Words}} {{.}}{{end}}
