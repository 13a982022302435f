#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What a device does with cltrain, in one folder: what it is, whether every kernel computes the right numbers on it, how fast its
# products, kernels and GPT-2's training step are in each precision, and a training run with its loss curve. For a machine that is
# rented by the minute: everything is limited in time, every step keeps its output, and a step that fails does not stop the rest.
# It needs bash, coreutils and the program: a bundle of scripts/bundle.sh is enough.
#
# usage: scripts/device_report.sh [--device SPEC] [--out DIR] [--minutes N] [--text FILE] [--quick]
#   --device SPEC  which device (default: gpu)      --out DIR   the folder (default: device-report); it must not exist
#   --minutes N    about how long in all (20)       --text FILE what to train on (default: what the demo finds on the machine)
#   --quick        tiny sizes: only whether all of it works
# Environment: CLTRAIN the program (default: beside this script, or build/cltrain).
# Exit code: 0 all steps went well, 1 some did not: summary.txt says which.
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n 's/^# \(usage: .*\)/\1/p' "${BASH_SOURCE[0]}" >&2; exit 2; }
device=gpu out=device-report minutes=20 text='' quick=false
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=true ;;
    --device | --out | --minutes | --text)
        [ $# -ge 2 ] || usage
        case $1 in
        --device) device=$2 ;;
        --out) out=$2 ;;
        --minutes) minutes=$2 ;;
        --text) text=$2 ;;
        esac
        shift
        ;;
    *) usage ;;
    esac
    shift
done
case $minutes in '' | *[!0-9]*) usage ;; esac
[ -z "$text" ] || [ -r "$text" ] || { echo "device_report.sh: cannot read '$text'" >&2; exit 2; }

program=${CLTRAIN:-} root=$here
if [ -z "$program" ]; then
    if [ -x "$here/cltrain" ]; then program=$here/cltrain; else program=$here/../build/cltrain; fi
fi
[ -d "$root/configs" ] || root=$here/..
[ -x "$program" ] || { echo "device_report.sh: there is no program '$program'; set CLTRAIN to it" >&2; exit 2; }
mkdir "$out" || exit 2
out=$(cd "$out" && pwd)
summary=$out/summary.txt
end=$(($(date +%s) + 60 * minutes))
failed=0

# report NAME SHARE COMMAND...: runs it for at most SHARE per cent of what is left of the time; output in NAME.txt
report() {
    local name=$1 left limit code start
    left=$((end - $(date +%s)))
    limit=$((left * $2 / 100))
    shift 2
    if [ "$limit" -lt 5 ]; then
        echo "$name: left out, the time is over" | tee -a "$summary"
        return 0
    fi
    start=$(date +%s)
    timeout "$limit" "$@" >"$out/$name.txt" 2>&1 </dev/null
    code=$?
    case $code in
    0) echo "$name: ok, $(($(date +%s) - start)) s" ;;
    124) echo "$name: cut off after $limit s" ;;
    *) echo "$name: FAILED with code $code: $(tail -n 1 "$out/$name.txt")" && false ;;
    esac >>"$summary" || failed=$((failed + 1))
    tail -n 1 "$summary"
}

gpt2=$root/configs/gpt2-124m.json
batch=8 context=1024 sizes=1024,4096,8192 steps=10
shape=() pattern=() seconds=0.3
if $quick; then
    batch=2 context=32 sizes=64 steps=2 seconds=0.01
    shape=(model.layers=1 model.heads=2 model.channels=64 model.vocab=512)
    pattern=(-t 'relu*')
fi

{
    echo "date: $(date -u +%FT%TZ)"
    echo "processor: $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors"
    echo "system: $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), kernel $(uname -r)"
} >"$summary"
report version 5 "$program" version --json
report doctor 10 "$program" doctor
report devices 20 "$program" devices --json
report memory 20 "$program" bench memory --device "$device" --json "$out/memory.json"
report verify-quick 30 "$program" verify --quick --device "$device" ${pattern[@]+"${pattern[@]}"} --json "$out/verify-quick.json"
for dtype in f32 f16 bf16; do
    report "gemm-$dtype" 15 "$program" bench gemm --device "$device" --dtype $dtype --sizes $sizes --seconds $seconds --json "$out/gemm-$dtype.json"
done
for mode in f32 f16 bf16; do
    report "step-$mode" 15 "$program" bench step "$gpt2" --device "$device" data.micro_batch=$batch model.context=$context \
        precision.mode=$mode ${shape[@]+"${shape[@]}"} --warmup 3 --steps $steps --profile --json "$out/step-$mode.json"
done
report ops 20 "$program" bench ops --device "$device" ${pattern[@]+"${pattern[@]}"} --kernels --seconds $seconds --json "$out/ops.json"
if [ -n "$text" ]; then
    budget=2000
    if $quick; then budget=3; fi
    report train 40 "$program" train "$root/configs/gpt-shakespeare-cpu.json" data.type=text data.path="$text" --device "$device" \
        precision.mode=auto --out "$out/run" --max-steps $budget
else
    report train 40 "$program" demo --device "$device" --out "$out/run" --seconds "$(if $quick; then echo 2; else echo 60; fi)"
fi
report verify 90 "$program" verify --device "$device" ${pattern[@]+"${pattern[@]}"} --json "$out/verify.json" --junit "$out/verify.xml"
[ "$failed" -eq 0 ] || { echo "$failed steps failed"; exit 1; }
