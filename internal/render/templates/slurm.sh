#!/bin/bash
#SBATCH --job-name={{ name }}
#SBATCH --nodes={{ least ~ "-" ~ hosts if elastic else least }}
#SBATCH --ntasks-per-node=1
{% if cpus %}
#SBATCH --cpus-per-task={{ cpus }}
{% else %}
#SBATCH --exclusive
{% endif %}
{% if memory_gib %}
#SBATCH --mem={{ memory_gib }}G
{% else %}
#SBATCH --mem=0
{% endif %}
{% if gpus %}
#SBATCH --gpus-per-node={{ gpus }}
{% endif %}
{% if hours %}
#SBATCH --time={{ hours }}:00:00
{% endif %}
#SBATCH --output=%x-%j.log
#SBATCH --signal=TERM@120
#SBATCH --no-requeue
{% if elastic %}
#SBATCH --no-kill
{% endif %}
# A job on {{ nnodes }} host{% if hosts > 1 %}s{% endif %}, with one launcher per host, which starts its workers. Two minutes before the time limit
# the run saves a checkpoint and stops with code 75.
#
#   sbatch {{ name }}.sbatch
set -euo pipefail
{% if hosts > 1 %}

# The first host runs the launchers' store.
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
{% if port %}
port={{ port }}
{% else %}
port=$((20000 + SLURM_JOB_ID % 10000)) # jobs that share a host have different ones
{% endif %}
{% endif %}

# The job's secret reaches the launchers in the environment of the step.
export TRIREME_JOB_SECRET="${TRIREME_JOB_SECRET:-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}"
{% for key, value in env|items %}
export {{ key }}={{ shell(value) }}
{% endfor %}

exec srun --ntasks-per-node=1 --kill-on-bad-exit={{ 0 if elastic else 1 }} --export=ALL{% if cpus %} --cpus-per-task={{ cpus }}{% endif %} \
    trireme {{ words|join(" ") }}
