#!/bin/bash
# cloud-init runs this once, as root, on each of the 3 instances. The image has the AWS CLI, trireme in
# /usr/local/bin, and the files of the run in llama in the home of its first user, who runs the job:
# journalctl -fu trireme
set -euo pipefail
user=$(id -nu 1000)
home=$(getent passwd "$user" | cut -d: -f6)
install -d -m 700 -o "$user" /run/trireme
(
    umask 077
    aws --region eu-central-1 ssm get-parameter --name /trireme/llama/secret --with-decryption \
        --query Parameter.Value --output text >/run/trireme/job.secret
)
chown "$user" /run/trireme/job.secret
first=@FIRST@
if [ -z "$first" ]; then
    first=$(hostname -I | cut -d' ' -f1)
fi
cat >/run/trireme/job.sh <<'JOB'
export NOTE='it'\''s $x'
exec /usr/local/bin/trireme launch --nnodes 3 --nproc_per_node 8 --rdzv_endpoint "$first:29400" --node_rank @RANK@ --rdzv_id llama -- trireme train --config 'run one.yaml'
JOB
exec systemd-run --unit=trireme --uid="$user" --working-directory="$home/llama" \
    --setenv=HOME="$home" --setenv=TRIREME_JOB_SECRET_FILE=/run/trireme/job.secret --setenv=first="$first" \
    --property=KillMode=mixed --property=TimeoutStopSec=120 -- /bin/bash /run/trireme/job.sh
