#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What a device does with cltrain, in one folder: what it is, whether its kernels compute the right numbers with its matrix units
# and without them, how fast products, kernels and GPT-2's training step are in each precision, beside PyTorch where that is
# installed, and a training run with its loss curve. For a machine that is rented by the minute: the parts that matter most come
# first, each is limited in time and keeps its output, and one that fails or hangs costs nothing but itself. A driver without an
# ICD file is found by cltrain itself. It needs bash, coreutils, sed, awk and the program: a bundle of scripts/bundle.sh is enough.
#
# usage: scripts/device_report.sh [--device SPEC] [--out DIR] [--minutes N] [--parts LIST] [--text FILE] [--python PROGRAM] [--quick] [--list]
#   --device SPEC  which device (default: gpu)      --out DIR        the folder (default: device-report); it must not exist
#   --minutes N    at most how long in all (20)     --parts LIST     only these parts, with commas; 'step' means all step-...
#   --text FILE    what to train on (default: what the demo finds on the machine)
#   --python PROGRAM  the Python that has PyTorch (default: BENCH_PYTHON, else python3)
#   --quick        tiny sizes: only whether all of it works        --list   the names of the parts
# In the folder: PART.txt (output) and PART.json (records) of each part, report.json (all parts), report.md (a page), run/.
# report.json and report.md are written anew after each part: they are whole whenever the script is stopped.
# Environment: CLTRAIN the program (default: beside this script, or build/cltrain).
# Exit code: 0 all parts went well, 1 some did not: report.md says which.
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n 's/^# \(usage: .*\)/\1/p' "${BASH_SOURCE[0]}" >&2; exit 2; }
all_parts='version doctor devices verify-small tune step-bf16 torch-bf16 step-bf16-simple gemm-bf16 gemm-bf16-mma memory step-bf16-unstamped
    gemm-f16 gemm-f32 step-f16 step-f32 torch-f32 torch-gemm-bf16 verify-simple gemm-bf16-simple ops train verify'
device=gpu out=device-report minutes=20 text='' quick=false parts='' python=${BENCH_PYTHON:-python3}
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=true ;;
    --list) echo $all_parts; exit 0 ;;
    --device | --out | --minutes | --parts | --text | --python)
        [ $# -ge 2 ] || usage
        declare "${1#--}=$2"
        shift
        ;;
    *) usage ;;
    esac
    shift
done
case $minutes in '' | *[!0-9]*) usage ;; esac
[ -z "$text" ] || [ -r "$text" ] || { echo "device_report.sh: cannot read '$text'" >&2; exit 2; }
for part in ${parts//,/ }; do
    case " $(echo $all_parts) " in
    *" $part "* | *" $part-"*) ;;
    *) echo "device_report.sh: there is no part '$part'; there are:" $all_parts >&2; exit 2 ;;
    esac
done

program=${CLTRAIN:-} root=$here
if [ -z "$program" ]; then
    if [ -x "$here/cltrain" ]; then program=$here/cltrain; else program=$here/../build/cltrain; fi
fi
[ -d "$root/configs" ] || root=$here/..
[ -x "$program" ] || { echo "device_report.sh: there is no program '$program'; set CLTRAIN to it" >&2; exit 2; }
peer=$here/../tests/bench/peer_torch.py
[ -r "$peer" ] || peer=$here/peer_torch.py
mkdir "$out" || exit 2
out=$(cd "$out" && pwd)
begin=$(date +%s)
end=$((begin + 60 * minutes))
failed=0
: >"$out/.parts" # one line for each part that was tried: name, state, seconds, what there is to say

# --- reading our records, which have one value a line ---
value() { sed -n -E "s/^ *\"$2\": *\"?([^\",]*)\"?,?\$/\1/p" "$out/$1.json" 2>/dev/null | head -n 1; }
whole() { sed -n -E "s/^ *\"$2\": *\"(.*)\",?\$/\1/p" "$out/$1.json" 2>/dev/null | head -n 1; }
number() { # value, format
    case $1 in '' | *[!0-9.eE+-]*) echo '-' ;; *) awk -v x="$1" -v f="${2:-%.4g}" 'BEGIN { printf f, x }' ;; esac
}
# The number behind a name in a list of {name, unit, value}.
row() {
    awk -v want="\"$2\"," '$1 == "\"name\":" { hit = $2 == want } hit && $1 == "\"value\":" { print $2; exit }' "$out/$1.json" 2>/dev/null
}
# A number of PyTorch's record, which is one line.
peer_value() { sed -n -E "s/^.*\"$2\": *\"?([^\",}]*)[\",}].*\$/\1/p" "$out/$1.json" 2>/dev/null | head -n 1; }

# --- the page ---
gemm_rows() {
    local dtype form file torch=
    for dtype in f32 f16 bf16; do
        for form in '' -mma -simple; do
            file=$out/gemm-$dtype$form.json
            [ -s "$file" ] || continue
            torch=
            [[ $dtype$form != bf16 && $dtype$form != bf16-mma ]] || torch=$(peer_value torch-gemm-bf16 gflops)
            awk -v dtype="$dtype" -v form="${form#-}" -v torch="$torch" '
                { gsub(/[",]/, "") }
                $1 == "m:" { m = $2 } $1 == "n:" { n = $2 } $1 == "k:" { k = $2 }
                $1 == "ta:" { a = $2 == "true" ? "t" : "n" } $1 == "tb:" { b = $2 == "true" ? "t" : "n" }
                $1 == "backend:" { backend = $2 } $1 == "choice:" { choice = $2 }
                $1 == "gflops:" {
                    peer = "-"
                    if (torch != "" && m == n && n == k && a b == "nt" && m == 8192) peer = sprintf("%.0f (%.2f)", torch, $2 / torch)
                    printf "| %d x %d x %d | %s | %s | %s | %s %s | %.0f | %s |\n", m, n, k, dtype, a b, form == "" ? "all" : form == "mma" ? "without wgmma" : "without units", backend, choice, $2, peer
                }' "$file"
        done
    done
}
step_rows() {
    local part mode form torch ms
    for part in step-bf16 step-bf16-unstamped step-bf16-simple step-f16 step-f32; do
        [ -s "$out/$part.json" ] || continue
        mode=${part#step-}
        form=all mode=${mode%%-*} torch=
        case $part in
        *-simple) form='without units' ;;
        *-unstamped) form='all, device.timestamps=false' ;;
        step-bf16) torch=$(peer_value torch-bf16 step_ms) ;;
        step-f32) torch=$(peer_value torch-f32 step_ms) ;;
        esac
        ms=$(value $part step_ms)
        echo "| $mode | $form | $(number "$ms" %.1f) | $(number "$(value $part tokens_per_s)" %.0f) | $(number "$(value $part gflops)" %.0f) | $(number "$(value $part build_s)" %.1f) |$(
            awk -v t="$torch" -v ms="$ms" 'BEGIN { if (t != "") printf " %.1f (%.2f)", t, t / ms; else printf " -" }') |"
    done
}
verify_rows() {
    local part
    for part in verify-small verify-simple verify; do
        [ -s "$out/$part.txt" ] && echo "| $part | $(tail -n 1 "$out/$part.txt" | tr '|' ' ') |"
    done
}
page() {
    local name
    echo "# $(whole devices name): device report"
    echo
    echo "cltrain $(whole version version), $(date -u +%F), driver $(whole devices driver), device \`$device\`. Made by \`scripts/device_report.sh\`."
    echo
    echo '| part | result | seconds |'
    echo '| --- | --- | --- |'
    awk -F'\t' '{ gsub(/\|/, " ", $4); printf "| %s | %s%s | %s |\n", $1, $2, $4 == "" ? "" : ": " $4, $3 }' "$out/.parts"
    if [ -s "$out/devices.json" ] || [ -s "$out/memory.json" ]; then
        printf '\n## The device\n\n| | |\n| --- | --- |\n'
        echo "| host | $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1), $(nproc) processors, $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null), kernel $(uname -r) |"
        echo "| driver | $(whole devices driver), $(whole devices version), platform $(whole devices platform) |"
        echo "| capabilities | $capabilities |"
        echo "| drivers found without an ICD file | $(grep -c 'cltrain made an entry' "$out/doctor.txt" 2>/dev/null) |"
        echo "| compiled to | $(whole memory binary) |"
        echo "| local memory | $(value memory local_bytes) B reported, $(value memory local_proven_bytes) B proven |"
        for name in launch launch_stamped launch_in_row launch_in_row_stamped; do
            echo "| $name | $(number "$(row memory $name)" %.2f) us |"
        done
        echo "| arithmetic, f32 | $(number "$(row memory fma_peak)" %.0f) GFLOP/s |"
        echo "| memory, triad | $(number "$(row memory stream)" %.0f) GB/s |"
        echo "| transfers to and from it | $(number "$(row memory host_to_device)" %.1f), $(number "$(row memory device_to_host)" %.1f) GB/s |"
    fi
    printf '\n## Right numbers\n\n| list | result |\n| --- | --- |\n'
    verify_rows
    printf '\n## Training step, %s\n\n' "$shape_text"
    echo '| precision | kernels | ms | tokens/s | GFLOP/s | first build, s | PyTorch, ms (ratio) |'
    echo '| --- | --- | --- | --- | --- | --- | --- |'
    step_rows
    printf "\nPyTorch: %s. A ratio above 1 means that cltrain is faster.\n" "$torch_text"
    printf '\n## Matrix products\n\n| size | storage | layout | kernels | implementation | GFLOP/s | PyTorch (ratio) |\n| --- | --- | --- | --- | --- | --- | --- |\n'
    gemm_rows
    if [ -s "$out/run/metrics.jsonl" ]; then
        printf '\n## Training\n\n| step | loss |\n| --- | --- |\n'
        sed -n -E 's/.*"step": *([0-9]+).*"loss": *([0-9.eE+-]+).*/\1 \2/p' "$out/run/metrics.jsonl" |
            awk '{ s[NR] = $1; l[NR] = $2 } END { for (i = 0; i <= 10 && NR > 0; i++) { j = 1 + int(i * (NR - 1) / 10); if (j != last) printf "| %d | %.4f |\n", s[j], l[j]; last = j } }'
    fi
}
quoted() { printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g'; }
index() { # report.json: the parts, and the records of those that left one
    local name state seconds what first=true
    printf '{\n  "device": "%s",\n  "date": "%s",\n  "parts": [' "$(quoted "$device")" "$(date -u +%FT%TZ)"
    while IFS=$'\t' read -r name state seconds what; do
        $first || printf ','
        first=false
        printf '\n    {"name": "%s", "state": "%s", "seconds": %d, "text": "%s", "record": ' "$name" "$state" "$seconds" "$(quoted "$what")"
        if [ -s "$out/$name.json" ]; then cat "$out/$name.json"; else printf 'null'; fi
        printf '}'
    done <"$out/.parts"
    printf '\n  ]\n}\n'
}
refresh() {
    page >"$out/.page" 2>/dev/null && mv "$out/.page" "$out/report.md"
    index >"$out/.index" 2>/dev/null && mv "$out/.index" "$out/report.json"
}

# --- running parts ---
job=
stop() {
    [ -z "$job" ] || kill "$job" 2>/dev/null
    refresh
    exit 143
}
trap stop TERM INT HUP
wanted() { # is the part among those asked for?
    local part
    [ -n "$parts" ] || return 0
    for part in ${parts//,/ }; do
        case $1 in "$part" | "$part"-*) return 0 ;; esac
    done
    return 1
}
note() { # name, state, seconds, text
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$(printf '%s' "$4" | tr '\t\n' '  ')" >>"$out/.parts"
    echo "$1: $2${4:+: $4}, $3 s"
    refresh
}
leave_out() { if wanted "$1"; then note "$1" 'left out' 0 "$2"; fi; }
# report NAME SHARE COMMAND...: runs it for at most SHARE per cent of what is left of the time. Output in NAME.txt. A record that is
# not a whole one, because its writer was stopped, is put aside.
report() {
    local name=$1 left limit code start seconds
    wanted "$name" || return 0
    left=$((end - $(date +%s)))
    limit=$((left * $2 / 100))
    shift 2
    if [ "$limit" -lt 5 ]; then
        note "$name" 'left out' 0 'the time is over'
        return 0
    fi
    start=$(date +%s)
    timeout -k 5 "$limit" "$@" >"$out/$name.txt" 2>&1 </dev/null &
    job=$!
    wait "$job" 2>/dev/null # not in the foreground: a signal to this script is answered at once
    code=$?
    seconds=$(($(date +%s) - start))
    if [ -s "$out/$name.json" ] && ! tail -c 3 "$out/$name.json" | grep -q '[]}]'; then mv "$out/$name.json" "$out/$name.json.part"; fi
    case $code in
    0) note "$name" ok "$seconds" '' ;;
    124 | 137) note "$name" 'CUT OFF' "$seconds" "it took more than $limit s" ;;
    *) note "$name" FAILED "$seconds" "code $code: $(tail -n 1 "$out/$name.txt")" ;;
    esac
    [ "$code" -eq 0 ] || failed=$((failed + 1))
    return 0
}

gpt2=$root/configs/gpt2-124m.json
batch=8 context=1024 sizes=1024,4096,8192 steps=10 seconds=0.3 tune=120
shape=() pattern=() torch_shape=() torch_size=8192
shape_text='GPT-2 124M, 8 x 1024 tokens'
if $quick; then
    batch=2 context=32 sizes=64 steps=2 seconds=0.01 tune=1 torch_size=64
    shape=(model.layers=1 model.heads=2 model.channels=64 model.vocab=512)
    torch_shape=(--layers 1 --heads 2 --channels 64 --vocab 512)
    pattern=(-t 'relu*')
    shape_text='a tiny GPT, 2 x 32 tokens'
fi
capabilities= units= torch_text="not looked for yet"
refresh

report version 10 "$program" version --json
[ ! -s "$out/version.txt" ] || cp "$out/version.txt" "$out/version.json"
report doctor 10 "$program" doctor
report devices 25 "$program" devices --json
# The record is the output from its first bracket on: messages may come before it.
[ ! -s "$out/devices.txt" ] || sed -n '/^\[/,$p' "$out/devices.txt" >"$out/devices.json"
# Capabilities of the device that is meant (or of the first one), and those of them that are matrix units.
capabilities=$(awk -v want="$device" '
    function done() { if (caps != "" && (found == "" || (!hit && match_this))) { found = caps; hit = match_this } caps = ""; match_this = 0 }
    { line = $0; gsub(/^ *|[",]|\[|\]/, "", line) }
    /"spec":/ { done(); if (line == "spec: " want) match_this = 1 }
    /"kind":/ { if (line == "kind: " want) match_this = 1 }
    /"name":/ && !inside { if (index(tolower(line), tolower(want))) match_this = 1 }
    /"caps": \[/ { inside = 1; if ($0 ~ /\]/) inside = 0; next }
    inside && /\]/ { inside = 0 }
    inside { caps = caps (caps == "" ? "" : ",") line }
    END { done(); print found }' "$out/devices.json" 2>/dev/null)
for cap in ${capabilities//,/ }; do case $cap in *mma_* | wgmma) units=$units,-$cap ;; esac; done
units=${units#,}

torch_device=cuda torch_forms=(--mode compile)
if ! torch_text=$("$python" "$peer" --probe 2>/dev/null); then
    torch_text='not installed here'
elif [ "${torch_text%cuda*}" = "$torch_text" ]; then
    torch_device=cpu torch_forms=()
    if ! $quick; then torch_text="$torch_text, without CUDA: not comparable with this device" torch_device=''; fi
fi
# step NAME SHARE MODE ARGUMENTS...
step() {
    local name=$1 share=$2 mode=$3
    shift 3
    report "$name" "$share" "$program" bench step "$gpt2" --device "$device" \
        data.micro_batch=$batch model.context=$context precision.mode="$mode" ${shape[@]+"${shape[@]}"} "$@" \
        --warmup 3 --steps $steps --profile --json "$out/$name.json"
}
gemm() { # name, share, dtype, arguments
    local name=$1 share=$2 dtype=$3
    shift 3
    report "$name" "$share" "$program" bench gemm --device "$device" --dtype "$dtype" --sizes $sizes --seconds $seconds "$@" --json "$out/$name.json"
}
# PyTorch at its best: compiled, with its own flash attention and fused AdamW.
torch() { # name, share, arguments
    local name=$1 share=$2
    shift 2
    if [ "$torch_text" = 'not installed here' ] || [ -z "$torch_device" ]; then leave_out "$name" "PyTorch: $torch_text"; return 0; fi
    report "$name" "$share" "$python" "$peer" --device $torch_device "$@"
    if [ -s "$out/$name.txt" ]; then grep '^{' "$out/$name.txt" | tail -n 1 >"$out/$name.json"; fi
    refresh
}

report verify-small 40 "$program" verify --small --device "$device" ${pattern[@]+"${pattern[@]}"} --json "$out/verify-small.json"
report tune 30 "$program" tune "$gpt2" --device "$device" data.type=text data.path="$root/README.md" data.micro_batch=$batch model.context=$context precision.mode=bf16 \
    ${shape[@]+"${shape[@]}"} --seconds $tune --json "$out/tune.json"
step step-bf16 40 bf16
torch torch-bf16 40 --model gpt2 --dtype bf16 --tf32 --batch $batch --context $context ${torch_shape[@]+"${torch_shape[@]}"} \
    ${torch_forms[@]+"${torch_forms[@]}"} --steps $steps --warmup 5
if [ -n "$units" ]; then step step-bf16-simple 30 bf16 --caps "$units"; else leave_out step-bf16-simple 'the device has no matrix units'; fi
gemm gemm-bf16 20 bf16
case ,$capabilities, in *,wgmma,*) gemm gemm-bf16-mma 15 bf16 --caps -wgmma ;; esac # the other units of the same device
report memory 20 "$program" bench memory --device "$device" --json "$out/memory.json"
step step-bf16-unstamped 20 bf16 device.timestamps=false
gemm gemm-f16 20 f16
gemm gemm-f32 20 f32
step step-f16 25 f16
step step-f32 25 f32
torch torch-f32 25 --model gpt2 --dtype f32 --batch $batch --context $context ${torch_shape[@]+"${torch_shape[@]}"} --steps $steps --warmup 3
torch torch-gemm-bf16 15 --model matmul --sizes $torch_size-$torch_size-$torch_size --dtype bf16 --layout nt --repeat 10 --steps 6 --warmup 2
if [ -n "$units" ]; then
    report verify-simple 30 "$program" verify --small --caps "$units" --device "$device" ${pattern[@]+"${pattern[@]}"} --json "$out/verify-simple.json"
    gemm gemm-bf16-simple 20 bf16 --caps "$units"
else
    leave_out verify-simple 'the device has no matrix units'
    leave_out gemm-bf16-simple 'the device has no matrix units'
fi
report ops 20 "$program" bench ops --device "$device" ${pattern[@]+"${pattern[@]}"} --kernels --seconds $seconds --json "$out/ops.json"
if [ -n "$text" ]; then
    budget=2000
    if $quick; then budget=3; fi
    report train 40 "$program" train "$root/configs/gpt-shakespeare-cpu.json" data.type=text data.path="$text" --device "$device" \
        precision.mode=auto --out "$out/run" --max-steps $budget
else
    report train 40 "$program" demo --device "$device" --out "$out/run" --seconds "$(if $quick; then echo 2; else echo 60; fi)"
fi
report verify 95 "$program" verify --device "$device" ${pattern[@]+"${pattern[@]}"} --json "$out/verify.json" --junit "$out/verify.xml"
echo "the page: $out/report.md"
[ "$failed" -eq 0 ] || { echo "$failed parts failed"; exit 1; }
