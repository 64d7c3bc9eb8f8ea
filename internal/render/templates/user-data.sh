#!/bin/bash
# cloud-init runs this once, as root, on each of the {{ nnodes }} instance{% if hosts > 1 %}s{% endif %}. The image has the AWS CLI, trireme in
# /usr/local/bin, and the files of the run in {{ name }} in the home of its first user, who runs the job:
# journalctl -fu trireme
set -euo pipefail
user=$(id -nu 1000)
home=$(getent passwd "$user" | cut -d: -f6)
install -d -m 700 -o "$user" /run/trireme
(
    umask 077
    aws --region {{ shell(region) }} ssm get-parameter --name /trireme/{{ name }}/secret --with-decryption \
        --query Parameter.Value --output text >/run/trireme/job.secret
)
chown "$user" /run/trireme/job.secret
{% if hosts > 1 %}
first=@FIRST@
if [ -z "$first" ]; then
    first=$(hostname -I | cut -d' ' -f1)
fi
{% endif %}
cat >/run/trireme/job.sh <<'JOB'
{% for key, value in env|items %}
export {{ key }}={{ shell(value) }}
{% endfor %}
exec /usr/local/bin/trireme {{ words|join(" ") }}
JOB
exec systemd-run --unit=trireme --uid="$user" --working-directory="$home/{{ name }}" \
    --setenv=HOME="$home" --setenv=TRIREME_JOB_SECRET_FILE=/run/trireme/job.secret {% if hosts > 1 %}--setenv=first="$first" {% endif %}\
    --property=KillMode=mixed --property=TimeoutStopSec=120 -- /bin/bash /run/trireme/job.sh
