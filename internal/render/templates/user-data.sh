#!/bin/bash
# cloud-init runs this once, as root, on each of the {{.Nnodes}} instance{{if gt .Hosts 1}}s{{end}}. The image has the AWS CLI, trireme in
# /usr/local/bin, and the files of the run in {{.Name}} in the home of its first user, who runs the job:
# journalctl -fu trireme
set -euo pipefail
user=$(id -nu 1000)
home=$(getent passwd "$user" | cut -d: -f6)
install -d -m 700 -o "$user" /run/trireme
(
    umask 077
    aws --region {{shell .Region}} ssm get-parameter --name /trireme/{{.Name}}/secret --with-decryption \
        --query Parameter.Value --output text >/run/trireme/job.secret
)
chown "$user" /run/trireme/job.secret
{{- if gt .Hosts 1}}
first=@FIRST@
if [ -z "$first" ]; then
    first=$(hostname -I | cut -d' ' -f1)
fi
{{- end}}
cat >/run/trireme/job.sh <<'JOB'
{{- range $name, $value := .Env}}
export {{$name}}={{shell $value}}
{{- end}}
exec /usr/local/bin/trireme{{range .Words}} {{.}}{{end}}
JOB
exec systemd-run --unit=trireme --uid="$user" --working-directory="$home/{{.Name}}" \
    --setenv=HOME="$home" --setenv=TRIREME_JOB_SECRET_FILE=/run/trireme/job.secret {{if gt .Hosts 1}}--setenv=first="$first" {{end}}\
    --property=KillMode=mixed --property=TimeoutStopSec=120 -- /bin/bash /run/trireme/job.sh
