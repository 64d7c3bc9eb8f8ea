#!/bin/bash
# Starts {{ hosts }} instance{% if hosts > 1 %}s{% endif %} of {{ instance_type }} for the job {{ name }} with the AWS CLI. Without --apply it prints the calls.
#
#   ./launch.sh            # prints
#   ./launch.sh --apply    # starts, and prints the ids
#
# The security group must allow TCP between its members. The role of the instance profile must allow
# ssm:GetParameter of /trireme/{{ name }}/secret. The instances run until you terminate them.
set -euo pipefail
cd "$(dirname "$0")"
region={{ shell(region) }}
apply=${1-}

call() { # runs the AWS CLI, or prints the call
    if [ "$apply" = --apply ]; then
        aws --region "$region" "$@"
    else
        printf 'aws --region %q' "$region" >&2
        printf ' %q' "$@" >&2
        printf '\n' >&2
    fi
}

start() { # start RANK NAME FIRST: prints the id of a new instance
    local data=$work/user-data-$1.sh
    sed "s/@RANK@/$1/g; s/@FIRST@/$3/g" user-data.sh >"$data"
    call ec2 run-instances --cli-input-json file://instance.json --user-data "file://$data" \
        --client-token "$token-$1" \
        --tag-specifications "ResourceType=instance,Tags=[{Key=Name,Value=$2},{Key=trireme-job,Value={{ name }}}]" \
        --query 'Instances[0].InstanceId' --output text
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') # a call that is repeated starts nothing twice

# The job's secret, which the instances read.
umask 077
od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$work/secret"
call ssm put-parameter --name /trireme/{{ name }}/secret --type SecureString --overwrite \
    --value "file://$work/secret" --query Version --output text >/dev/null

master=$(start 0 {{ name }}-master "")
master=${master:-ID-OF-MASTER}
call ec2 wait instance-running --instance-ids "$master"
address=$(call ec2 describe-instances --instance-ids "$master" \
    --query 'Reservations[0].Instances[0].PrivateIpAddress' --output text)
address=${address:-ADDRESS-OF-MASTER}
echo "Master: $master ($address)"
{% if hosts > 1 %}

workers=()
for rank in $(seq 1 {{ hosts - 1 }}); do
    id=$(start "$rank" "{{ name }}-worker-$rank" "$address")
    workers+=("${id:-ID-OF-WORKER-$rank}")
done
call ec2 wait instance-running --instance-ids "${workers[@]}"
echo "Workers: ${workers[*]}"
{% endif %}
echo "Ends them all: aws --region $region ec2 terminate-instances --instance-ids $master{% if hosts > 1 %} ${workers[*]}{% endif %}"
