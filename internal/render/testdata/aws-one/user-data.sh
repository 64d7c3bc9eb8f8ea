#!/bin/bash
# cloud-init runs this once, as root, on each of the 1 instance. The image has the AWS CLI, trireme in
# /usr/local/bin, and the files of the run in trireme in the home of its first user, who runs the job:
# journalctl -fu trireme
set -euo pipefail
user=$(id -nu 1000)
home=$(getent passwd "$user" | cut -d: -f6)
install -d -m 700 -o "$user" /run/trireme
(
    umask 077
    aws --region eu-central-1 ssm get-parameter --name /trireme/trireme/secret --with-decryption \
        --query Parameter.Value --output text >/run/trireme/job.secret
)
chown "$user" /run/trireme/job.secret
cat >/run/trireme/job.sh <<'JOB'
exec /usr/local/bin/trireme launch --nnodes 1 --nproc_per_node 1 -- trireme train --config run.yaml
JOB
exec systemd-run --unit=trireme --uid="$user" --working-directory="$home/trireme" \
    --setenv=HOME="$home" --setenv=TRIREME_JOB_SECRET_FILE=/run/trireme/job.secret \
    --property=KillMode=mixed --property=TimeoutStopSec=120 -- /bin/bash /run/trireme/job.sh
