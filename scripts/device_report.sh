#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures a device with cltrain, and writes the results into one folder: a description of the device, the
# speed of GPT-2's training step, compared with PyTorch if that is installed, the compiler's messages about
# the kernels, checks of the kernels' results, and a training run with its loss curve. Made for a machine
# that is rented by the minute: the most important parts come first, each part has its own time limit, and a
# part that fails or hangs does not affect the others. A second call in the same folder skips the parts that
# were successful. The script needs bash, coreutils, sed, awk and the program: a bundle of scripts/bundle.sh
# is enough.
#
# usage: scripts/device_report.sh [--device SPEC] [--out DIR] [--minutes N] [--full] [--scale N] [--parts LIST] [--pack DIR] [--text FILE] [--python PROGRAM] [--quick] [--list]
#   --device SPEC  which device (default: gpu)      --out DIR        the folder (default: device-report); an old one is continued
#   --minutes N    time limit for all parts (8)     --full           also the long parts, within 60 minutes
#   --scale N      multiplies the time limits of parts, for a slow device
#   --parts LIST   only these parts, separated by commas; 'step' means all step-...
#   --pack DIR     also writes six files to DIR at the end: report.md, report.json, logs.tgz, ptx.tgz, cache.tgz, crash.tgz
#   --text FILE    the text to train on (default: the text that the demo finds on the machine)
#   --python PROGRAM  the Python that has PyTorch (default: BENCH_PYTHON, else python3)
#   --quick        tiny sizes, to test all parts        --list   the parts, with their limits in seconds
# In the folder: PART.txt (output) and PART.json (records) of each part, build/ (log and binary of each
# program), cache/ (answers, programs, tuning records; usable on another machine with the same driver),
# report.json (all parts), report.md (a page), run/. report.json and report.md are written after each part, so
# they are complete whenever the script is stopped.
# scripts/gpu_results.sh puts report.md into docs/measurements.md.
# Environment: CLTRAIN the program (default: beside this script, or build/cltrain).
# Exit code: 0 all parts succeeded, 1 some failed (report.md says which), 143 the script was stopped.
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/help.sh"
usage() { sed -n 's/^# \(usage: .*\)/\1/p' "${BASH_SOURCE[0]}" >&2; exit 2; }
# The parts: name, limit in seconds, content. The long ones run only with --full.
table='host 8 the driver, its libraries and where they are
version 8 the version of cltrain
devices 120 probes and self-tests
doctor 20 the loader, drivers, device nodes
step 60 the training step of GPT-2 124M in bf16, as a training runs it
build 60 seconds, registers and spills of each of its programs
step-profile 40 the step again, with the time of each kernel
torch 90 PyTorch with its compiler and flash attention beside it
gemm 60 products of that model, and squares
gemm-mma 40 the same without wgmma
verify-quick 90 right numbers
memory 30 limits of the device, launches
tune 60 which variants are fastest
step-tuned 30 the step with them
step-mma 30 the step without wgmma
step-large 40 the step with four times the batch
train 45 a training with its loss curve
ops 45 attention by itself'
long='step-simple 60 the step without matrix units
gemm-simple 60 products without matrix units
gemm-f16 60 products in f16
gemm-f32 60 products in f32
step-f16 60 the step in f16
step-f32 60 the step in f32
torch-f32 120 PyTorch in f32
verify-small 600 all small cases
verify-simple 600 the same without matrix units
ops-all 300 all ops
verify 1800 all cases'
device=gpu out=device-report minutes='' text='' quick=false full=false parts='' pack='' scale=1 python=${BENCH_PYTHON:-python3} list=false
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=true ;;
    --full) full=true ;;
    --list) list=true ;;
    --device | --out | --minutes | --parts | --pack | --scale | --text | --python)
        [ $# -ge 2 ] || usage
        declare "${1#--}=$2"
        shift
        ;;
    *) usage ;;
    esac
    shift
done
if $full; then table=$table$'\n'$long; fi
if $list; then printf '%s\n' "$table"; exit 0; fi
: "${minutes:=$(if $full; then echo 60; else echo 8; fi)}"
case $minutes$scale in *[!0-9]*) usage ;; esac
[ -z "$text" ] || [ -r "$text" ] || { echo "device_report.sh: cannot read '$text'" >&2; exit 2; }
for part in ${parts//,/ }; do
    grep -q -E "^$part[ -]" <<<"$table" ||
        { echo "device_report.sh: there is no part '$part'; there are:" $(cut -d' ' -f1 <<<"$table") >&2; exit 2; }
done

program=${CLTRAIN:-} root=$here
if [ -z "$program" ]; then
    if [ -x "$here/cltrain" ]; then program=$here/cltrain; else program=$here/../build/cltrain; fi
fi
[ -d "$root/configs" ] || root=$here/..
[ -x "$program" ] || { echo "device_report.sh: there is no program '$program'; set CLTRAIN to it" >&2; exit 2; }
peer=$here/../tests/bench/peer_torch.py
[ -r "$peer" ] || peer=$here/peer_torch.py
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
[ -z "$pack" ] || { mkdir -p "$pack" && pack=$(cd "$pack" && pwd); } || exit 2
# A folder with measurements of another device, size or version cannot be continued.
settings="device $device, $(if $quick; then echo tiny; else echo whole; fi) sizes, $("$program" version 2>/dev/null | head -n 1)"
if [ -e "$out/.settings" ] && [ "$(cat "$out/.settings")" != "$settings" ]; then
    echo "device_report.sh: '$out' holds a report of: $(cat "$out/.settings"); this is: $settings; name another folder with --out" >&2
    exit 2
fi
printf '%s\n' "$settings" >"$out/.settings"
export CLTRAIN_CACHE_DIR=$out/cache CUDA_CACHE_PATH=$out/cache/driver
mkdir -p "$CUDA_CACHE_PATH"
begin=$(date +%s)
end=$((begin + 60 * minutes))
failed=0
touch "$out/.parts" # one line for each part that was tried: name, state, seconds, what there is to say
# An open device file keeps the driver initialised between processes; otherwise each process spends a second
# or two on that.
if [ -r /dev/nvidia0 ] && timeout -k 1 10 sh -c ': </dev/nvidia0' 2>/dev/null; then exec 9</dev/nvidia0; fi

# --- reading cltrain's records, which have one value per line ---
value() { sed -n -E "s/^ *\"$2\": *\"?([^\",]*)\"?,?\$/\1/p" "$out/$1.json" 2>/dev/null | head -n 1; }
whole() { sed -n -E "s/^ *\"$2\": *\"(.*)\",?\$/\1/p" "$out/$1.json" 2>/dev/null | head -n 1; }
number() { # value, format
    case $1 in '' | *[!0-9.eE+-]*) echo '-' ;; *) awk -v x="$1" -v f="${2:-%.4g}" 'BEGIN { printf f, x }' ;; esac
}
# The value that belongs to a name in a list of {name, unit, value}.
row() {
    awk -v want="\"$2\"," '$1 == "\"name\":" { hit = $2 == want } hit && $1 == "\"value\":" { print $2; exit }' "$out/$1.json" 2>/dev/null
}
# Prints a number of PyTorch's record, which is a single line.
peer_value() { sed -n -E "s/^.*\"$2\": *\"?([^\",}]*)[\",}].*\$/\1/p" "$out/$1.json" 2>/dev/null | head -n 1; }
ratio() { # a, b: a / b
    case $1$2 in '' | *[!0-9.eE+-]*) ;; *) [ -n "$1" ] && [ -n "$2" ] && awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b }' ;; esac
}
# The result of a part, in a few words.
found_by() {
    case $1 in
    step | step-*)
        echo "$(number "$(value "$1" step_ms)" %.1f) ms, $(number "$(value "$1" tokens_per_s)" %.0f) tokens/s, build $(number "$(value "$1" build_s)" %.1f) s" ;;
    torch | torch-*)
        local mine=step share
        [ "$1" = torch ] || mine=step-f32
        share=$(ratio "$(peer_value "$1" step_ms)" "$(value $mine step_ms)")
        echo "$(number "$(peer_value "$1" step_ms)" %.1f) ms${share:+; cltrain has $share of its speed}" ;;
    build | doctor | verify | verify-*) tail -n 1 "$out/$1.txt" | cut -c1-160 ;;
    devices) echo "capabilities $capabilities" ;;
    esac
}

# --- the page ---
gemm_rows() {
    local part form
    for part in gemm gemm-mma gemm-simple gemm-f16 gemm-f32; do
        [ -s "$out/$part.json" ] || continue
        case $part in gemm-mma) form='without wgmma' ;; gemm-simple) form='without units' ;; *) form=all ;; esac
        awk -v form="$form" '
            { gsub(/[",]/, "") }
            $1 == "m:" { m = $2 } $1 == "n:" { n = $2 } $1 == "k:" { k = $2 } $1 == "dtype:" { dtype = $2 }
            $1 == "ta:" { a = $2 == "true" ? "t" : "n" } $1 == "tb:" { b = $2 == "true" ? "t" : "n" }
            $1 == "backend:" { backend = $2 } $1 == "choice:" { choice = $2 }
            $1 == "gflops:" {
                printf "| %d x %d x %d | %s | %s | %s | %s %s | %.0f |\n", m, n, k, dtype, a b, form, backend, choice, $2
            }' "$out/$part.json"
    done
}
step_rows() {
    local part mode form
    while read -r part _; do
        case $part in step | step-*) ;; *) continue ;; esac
        [ -s "$out/$part.json" ] || continue
        mode=bf16 form='as a training runs it'
        case $part in
        step-profile) form='with time stamps of every command' ;;
        step-tuned) form='tuned' ;;
        step-mma) form='without wgmma' ;;
        step-large) form="$((4 * batch)) samples" ;;
        step-simple) form='without matrix units' ;;
        step-plain) form='without any capability' ;;
        step-f*) mode=${part#step-} ;;
        esac
        echo "| $mode | $form | $(number "$(value $part step_ms)" %.1f) | $(number "$(value $part tokens_per_s)" %.0f) |" \
            "$(number "$(value $part gflops)" %.0f) | $(number "$(value $part commands)" %.0f) | $(number "$(value $part build_s)" %.1f) |"
    done <<<"$table"$'\nstep-plain'
    for part in torch torch-f32; do
        [ -s "$out/$part.json" ] || continue
        echo "| $(if [ $part = torch ]; then echo bf16; else echo f32; fi) | PyTorch $torch_text | $(number "$(peer_value $part step_ms)" %.1f) | - | - | - | - |"
    done
}
build_rows() { # the slowest programs, and all with spills
    if [ ! -s "$out/build.json" ]; then
        [ ! -s "$out/build.txt" ] || { printf '\n## Programs, as far as they were built\n\n'; sed 's/^/    /' "$out/build.txt"; }
        return 0
    fi
    printf '\n## Programs\n\n%s\n\n| kernel | seconds | registers | spilled, B | local memory, B |\n| --- | --- | --- | --- | --- |\n' "$(tail -n 1 "$out/build.txt")"
    awk '{ gsub(/[",]/, "") } $1 == "kernel:" { kernel = $2 } $1 == "seconds:" { s = $2 } $1 == "registers:" { r = $2 } $1 == "spilled_bytes:" { spilled = $2 }
        $1 == "static_local_bytes:" && kernel != "" { printf "%s %.3f %s %s %s\n", kernel, s, r, spilled, $2; kernel = "" }' "$out/build.json" |
        sort -k2,2nr | awk 'NR <= 12 || $4 + 0 > 0 { gsub(/null/, "-"); printf "| %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5 }'
}
page() {
    local name
    echo "# $(whole device name): device report"
    echo
    echo "cltrain $(whole version version), $(date -u +%F), driver $(whole device driver), device \`$device\`. Made by \`scripts/device_report.sh\`."
    echo
    echo '| part | result | seconds |'
    echo '| --- | --- | --- |'
    awk -F'\t' '{ gsub(/\|/, " ", $4); printf "| %s | %s%s | %s |\n", $1, $2, $4 == "" ? "" : ": " $4, $3 }' "$out/.parts"
    if [ -s "$out/devices.json" ] || [ -s "$out/memory.json" ]; then
        printf '\n## The device\n\n| | |\n| --- | --- |\n'
        echo "| host | $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1), $(nproc) processors, $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null), kernel $(uname -r) |"
        echo "| driver | $(whole device driver), $(whole device version), platform $(whole device platform) |"
        echo "| capabilities | $capabilities |"
        echo "| drivers found without an ICD file | $(grep -c 'cltrain made an entry' "$out/doctor.txt" 2>/dev/null) |"
        echo "| compiled to | $(whole memory binary) |"
        echo "| local memory | $(value memory local_bytes) B reported, $(value memory local_proven_bytes) B proven, $(value memory local_retargeted_bytes) B by programs for sm_90a, $(value memory local_argument_bytes) B as an argument |"
        for name in launch launch_stamped launch_in_row launch_in_row_event launch_in_row_stamped; do
            echo "| $name | $(number "$(row memory $name)" %.2f) us |"
        done
        echo "| arithmetic, f32 | $(number "$(row memory fma_peak)" %.0f) GFLOP/s |"
        echo "| memory, triad | $(number "$(row memory stream)" %.0f) GB/s |"
        echo "| transfers to and from it | $(number "$(row memory host_to_device)" %.1f), $(number "$(row memory device_to_host)" %.1f) GB/s |"
    fi
    printf '\n## Training step, %s\n\n' "$shape_text"
    echo '| precision | kernels | ms | tokens/s | GFLOP/s | commands | first build, s |'
    echo '| --- | --- | --- | --- | --- | --- | --- |'
    step_rows
    build_rows
    printf '\n## Matrix products\n\n| size | storage | layout | kernels | implementation | GFLOP/s |\n| --- | --- | --- | --- | --- | --- |\n'
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
# Packs the results into six files, for a machine from which only a few files may be copied.
archive() { # name, pattern of files and folders of $out ...
    local name=$1
    shift
    (cd "$out" && ls -d $@ 2>/dev/null | tar -czf "$pack/$name.tgz" -T - 2>/dev/null)
}
pack_up() {
    [ -n "$pack" ] || return 0
    cp "$out/report.md" "$out/report.json" "$pack/"
    archive logs '*.txt' '*.json' '*.json.part' run/metrics.jsonl
    archive ptx build
    archive cache cache/answers cache/listing cache/programs cache/tuning cache/driver
    archive crash cache/crash
}

# --- running parts ---
job=
stop() {
    [ -z "$job" ] || kill "$job" 2>/dev/null
    exit 143
}
# Runs at the end of the script in any case: prints the short table, writes the page and the archives.
summary() {
    refresh
    echo
    awk -F'\t' '{ printf "%-14s %-9s %4d s  %s\n", $1, $2, $3, $4 }' "$out/.parts"
    pack_up
    echo "the page: $out/report.md"
}
trap stop TERM INT HUP
trap summary EXIT
wanted() { # is the part among those asked for?
    local part
    [ -n "$parts" ] || return 0
    for part in ${parts//,/ }; do
        case $1 in "$part" | "$part"-*) return 0 ;; esac
    done
    return 1
}
state_of() { awk -F'\t' -v name="$1" '$1 == name { print $2 }' "$out/.parts"; }
note() { # name, state, seconds, text: takes the place of an earlier line of that part
    grep -v "^$1"$'\t' "$out/.parts" >"$out/.parts.new"
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$(printf '%s' "$4" | tr '\t\n' '  ')" >>"$out/.parts.new"
    mv "$out/.parts.new" "$out/.parts"
    echo "$1: $2${4:+: $4}, $3 s"
    refresh
}
# run NAME LIMIT COMMAND...: writes the output to NAME.txt. An incomplete record, whose writer was stopped,
# is renamed.
run() {
    local name=$1 limit=$(($2 * scale)) left=$((end - $(date +%s))) code start seconds
    shift 2
    [ "$limit" -le "$left" ] || limit=$left
    if [ "$limit" -lt 5 ]; then
        note "$name" 'left out' 0 'the time is over'
        return 0
    fi
    start=$(date +%s)
    rm -f "$out/$name.json" "$out/$name.json.part"
    timeout -k 3 "$limit" "$@" >"$out/$name.txt" 2>&1 </dev/null &
    job=$!
    wait "$job" 2>/dev/null # not in the foreground: a signal to this script is answered at once
    code=$?
    job=
    seconds=$(($(date +%s) - start))
    after "$name"
    if [ -s "$out/$name.json" ] && ! tail -c 3 "$out/$name.json" | grep -q '[]}]'; then mv "$out/$name.json" "$out/$name.json.part"; fi
    if [ "$code" -eq 137 ] && [ "$seconds" -lt "$limit" ]; then code=killed; fi
    case $code in
    0)
        : >"$out/.$name.ok"
        note "$name" ok "$seconds" "$(found_by "$name")"
        ;;
    124 | 137) note "$name" 'TIMED OUT' "$seconds" "it took more than $limit s" ;;
    killed) note "$name" FAILED "$seconds" "it was killed, as the system does when there is no memory left" ;;
    *) note "$name" FAILED "$seconds" "code $code: $(tail -n 1 "$out/$name.txt")" ;;
    esac
    [ "$code" = 0 ] || failed=$((failed + 1))
    return 0
}
# Parts whose record is the output of their command.
after() {
    case $1 in
    version) cp "$out/version.txt" "$out/version.json" ;;
    # Keeps the text from its first bracket on, since messages may come before.
    devices) sed -n '/^\[/,$p' "$out/devices.txt" >"$out/devices.json" && read_capabilities ;;
    torch*) grep '^{' "$out/$1.txt" | tail -n 1 >"$out/$1.json" ;;
    esac
}
# Reads the record of the chosen device from the list of all devices: its capabilities ("?" if devices were
# listed without it, "" if they are unknown), and those among them that are matrix units.
capabilities='' units=''
read_capabilities() {
    local cap
    capabilities='' units=''
    [ -s "$out/devices.json" ] || return 0
    awk -v want="$device" '
        /^  \{/ { text = ""; hit = 0 }
        { text = text $0 "\n"; line = $0; gsub(/^ *|[",]/, "", line) }
        /^    "spec":/ { hit = hit || line == "spec: " want }
        /^    "kind":/ { hit = hit || line == "kind: " want }
        /^    "name":/ { hit = hit || index(tolower(line), tolower(want)) }
        /^  \}/ && hit { printf "%s", text; exit }' "$out/devices.json" >"$out/device.json"
    capabilities=$(awk '/"caps": \[/ { inside = 1; if ($0 ~ /\]/) exit; next } inside && /\]/ { exit }
        inside { gsub(/[", ]/, ""); printf "%s%s", between, $0; between = "," }' "$out/device.json")
    [ -s "$out/device.json" ] || capabilities='?'
    for cap in ${capabilities//,/ }; do case $cap in *mma_* | wgmma) units=$units,-$cap ;; esac; done
    units=${units#,}
}
read_capabilities

host_facts() {
    uname -a
    cat /proc/driver/nvidia/version 2>/dev/null
    nvidia-smi -q -d CLOCK,PERFORMANCE,MEMORY,POWER 2>&1 | head -n 150
    echo "LD_LIBRARY_PATH=${LD_LIBRARY_PATH-} NVIDIA_DRIVER_CAPABILITIES=${NVIDIA_DRIVER_CAPABILITIES-}"
    ls -l /etc/OpenCL/vendors /dev/nvidia* 2>&1
    ldconfig -p 2>/dev/null | grep -E 'libnvidia|libcuda|libOpenCL'
    ls -l /usr/local/nvidia/lib64 /usr/lib/x86_64-linux-gnu 2>/dev/null | grep -E 'libnvidia|libcuda|libOpenCL'
    head -n 3 /proc/meminfo
    df -h "$out"
}
# If the doctor finds no device, also shows which files the linker tried.
doctor() {
    "$program" doctor && return 0
    LD_DEBUG=libs "$program" doctor 2>&1 | grep -E 'libnvidia|libcuda|OpenCL|error' | head -n 100
    "$program" doctor
}

gpt2=$root/configs/gpt2-124m.json
batch=16 context=1024 steps=10 seconds=0.15 shape_text='GPT-2 124M, 16 x 1024 tokens'
sizes=16384x2304x768,16384x768x768,16384x3072x768,16384x768x3072,768x3072x16384,4096,8192
shape=() pattern=() attention='attention*' torch_shape=() jobs=()
if [ "$(nproc)" -ge 8 ]; then jobs=(--jobs 8); fi
if $quick; then
    batch=2 context=32 sizes=64 steps=2 seconds=0.01 shape_text='a tiny GPT, 2 x 32 tokens'
    shape=(model.layers=1 model.heads=2 model.channels=64 model.vocab=512)
    torch_shape=(--layers 1 --heads 2 --channels 64 --vocab 512)
    pattern=(-t 'relu*') attention='relu*'
fi
# PyTorch with its fastest settings: compiled, with its own flash attention and fused AdamW. The script
# searches for PyTorch when the first of its parts begins.
torch_text=$(cat "$out/torch-probe.txt" 2>/dev/null) torch_missing='' torch_form=()
look_for_torch() {
    torch_form=(--device cuda --mode compile)
    timeout -k 3 60 "$python" "$peer" --probe >"$out/torch-probe.txt" 2>/dev/null </dev/null &
    job=$!
    wait "$job" 2>/dev/null || : >"$out/torch-probe.txt"
    job=
    torch_text=$(cat "$out/torch-probe.txt")
    if [ -z "$torch_text" ]; then
        torch_missing='PyTorch: not installed here'
    elif [ "${torch_text%cuda*}" = "$torch_text" ]; then
        torch_form=(--device cpu)
        $quick || torch_missing="PyTorch $torch_text has no CUDA: not comparable with this device"
    fi
}

# Steps and products are measured without tuning records, except for step-tuned.
step_command() { # mode, batch, more arguments
    command=("$program" bench step "$gpt2" --device "$device" data.micro_batch="$2" data.global_batch="$2" model.context=$context precision.mode="$1" ${shape[@]+"${shape[@]}"}
        device.tune="$(if [ "$name" = step-tuned ]; then echo cached; else echo off; fi)"
        --warmup 3 --steps $steps "${@:3}" --json "$out/$name.json")
}
gemm_command() { # storage, more arguments
    command=("$program" bench gemm --device "$device" --dtype "$1" --untuned --sizes $sizes --seconds $seconds "${@:2}" --json "$out/$name.json")
}
verify_command() { command=("$program" verify --device "$device" ${jobs[@]+"${jobs[@]}"} ${pattern[@]+"${pattern[@]}"} "$@" --json "$out/$name.json"); }
torch_command() {
    [ ${#torch_form[@]} -gt 0 ] || look_for_torch
    why=$torch_missing
    command=("$python" "$peer" "${torch_form[@]}" --model gpt2 --batch $batch --context $context ${torch_shape[@]+"${torch_shape[@]}"} --steps $steps "$@")
}
train_command() {
    rm -rf "$out/run" # of an earlier call that was stopped
    if [ -n "$text" ]; then
        command=("$program" train "$root/configs/gpt-shakespeare-cpu.json" data.type=text data.path="$text" --device "$device" precision.mode=auto
            --out "$out/run" --max-steps "$(if $quick; then echo 3; else echo 2000; fi)")
    else
        command=("$program" demo --device "$device" --out "$out/run" --seconds "$(if $quick; then echo 2; else echo 20; fi)")
    fi
}
# command_of NAME: sets `command`, or `why`, the reason for skipping the part.
command_of() {
    local name=$1
    why='' command=()
    case $name in
    *-simple) [ -n "$units" ] || why='no matrix units are known of the device' ;;
    *-mma) case ,$capabilities, in ,, | *,wgmma,*) ;; *) why='the device has no wgmma' ;; esac ;;
    step-tuned) [ -e "$out/.tune.ok" ] || why='nothing was tuned' ;;
    esac
    case $name in
    host) command=(bash -c host_facts) ;;
    version) command=("$program" version --json) ;;
    doctor) command=(bash -c doctor) ;;
    devices) command=("$program" devices --json) ;;
    step | step-tuned) step_command bf16 $batch ;;
    step-profile) step_command bf16 $batch --profile --trace "$out/trace.json" ;;
    step-mma) step_command bf16 $batch --caps -wgmma ;;
    step-large) step_command bf16 $((4 * batch)) ;;
    step-simple) step_command bf16 $batch --caps "$units" ;;
    step-f*) step_command "${name#step-}" $batch ;;
    step-plain) step_command f32 1 --caps none ;;
    build)
        # Disables the driver's own cache, since a cached program gives no messages of the compiler.
        command=(env CUDA_CACHE_DISABLE=1 "$program" bench build "$gpt2" --device "$device" data.micro_batch=$batch data.global_batch=$batch model.context=$context precision.mode=bf16
            ${shape[@]+"${shape[@]}"} --out "$out/build" --json "$out/build.json")
        ;;
    torch) torch_command --dtype bf16 --tf32 --warmup 5 ;;
    torch-f32) torch_command --dtype f32 --warmup 3 ;;
    gemm) gemm_command bf16 ;;
    gemm-mma) gemm_command bf16 --caps -wgmma ;;
    gemm-simple) gemm_command bf16 --caps "$units" ;;
    gemm-f*) gemm_command "${name#gemm-}" ;;
    verify-quick) verify_command --quick ;;
    verify-small) verify_command --small ;;
    verify-simple) verify_command --small --caps "$units" ;;
    verify) verify_command --junit "$out/verify.xml" ;;
    memory) command=("$program" bench memory --device "$device" --json "$out/memory.json") ;;
    tune)
        command=("$program" tune "$gpt2" --device "$device" data.type=text data.path="$root/README.md" data.micro_batch=$batch data.global_batch=$batch model.context=$context
            precision.mode=bf16 ${shape[@]+"${shape[@]}"} --seconds "$(if $quick; then echo 1; else echo 45; fi)" --json "$out/tune.json")
        ;;
    train) train_command ;;
    ops) command=("$program" bench ops --device "$device" -t "$attention" --kernels --seconds $seconds --json "$out/ops.json") ;;
    ops-all) command=("$program" bench ops --device "$device" ${pattern[@]+"${pattern[@]}"} --kernels --seconds $seconds --json "$out/ops-all.json") ;;
    esac
}
# part NAME LIMIT: runs the part unless an earlier call has done so.
part() {
    wanted "$1" || return 0
    [ ! -e "$out/.$1.ok" ] || return 0
    command_of "$1"
    if [ -n "$why" ]; then note "$1" 'left out' 0 "$why"; else run "$1" "$2" "${command[@]}"; fi
}
export -f host_facts doctor
export program out
refresh
while read -r name limit _; do
    part "$name" "$limit"
    [ "$name" = doctor ] && wanted devices || continue
    # If listing devices fails, one step that needs no capability is tried; if that fails, too, nothing else
    # can be measured.
    works=$([ "$capabilities" = '?' ] || echo ok)
    case $(state_of devices) in
    FAILED | 'TIMED OUT')
        part step-plain 60
        works=$(state_of step-plain) capabilities=''
        ;;
    esac
    if [ "$works" != ok ]; then
        echo "there is no device '$device' that works: the other parts are left out"
        failed=$((failed + 1))
        break
    fi
done <<<"$table"
[ "$failed" -eq 0 ] || { echo "$failed parts failed"; exit 1; }
