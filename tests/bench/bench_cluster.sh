#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Data-parallel training on one machine, each rank on a core of its own: weak scaling, a simulated
# accelerator that needs no core while gradients are reduced, the same global batch on more ranks,
# synchronised batch norms, and two hosts (network namespaces) joined by a slow link. Times of steps and of
# communication come from metrics.jsonl. Options and environment: benchlib.sh; needs mpirun, and root for
# the hosts.
#
#   BENCH_IDLE_MS (140): a step of the simulated accelerator
#   BENCH_SHIM: tests/driver_shim.so of a build (default: that of the program's folder)
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"
. "$root/tests/comm/hosts_lib.sh"

command -v mpirun >/dev/null || { skip everything "mpirun is not installed"; finish; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
folder=$(dirname "$CLTRAIN")
shim=${BENCH_SHIM:-$folder/tests/driver_shim.so}
idle_ms=${BENCH_IDLE_MS:-140}
gpt2=("$root/configs/gpt2-124m.json" "data.path=$work/tokens" precision.mode=f32 schedule.warmup=1 data.global_batch=0)
long=(model.context=256) short=(model.context=16)
mlp=("$here/mlp.json" data.samples=65536)
if $self_test; then gpt2+=(model.layers=1 model.heads=2 model.channels=32 model.vocab=256) long=(model.context=32); fi

# Text for the language model; its content does not matter.
cat "$root"/docs/*.md >"$work/text.txt"
ours data prepare "$work/text.txt" --out "$work/tokens"

# series KEY: the values of KEY in the run's steps, without the first `warmup` ones
series() { sed -n -E "/\"loss\":/s/.*\"$1\": ?([-+.0-9eE]+)[,}].*/\\1/p" "$work/run/metrics.jsonl" | tail -n "+$((warmup + 1))"; }
# train CASE SIDE RANKS STEPS SETTINGS...: one training run; samples of its times
train() {
    local name=$1 side=$2 ranks=$3 steps=$4 key
    shift 4
    rm -rf "$work/run"
    "${launcher[@]}" -np "$ranks" ${own_env[@]+"${own_env[@]}"} "$CLTRAIN" train "$@" \
        train.steps="$steps" train.eval_every=0 train.eval_batches=1 checkpoint.minutes=0 checkpoint.every=0 checkpoint.final=false \
        --out "$work/run" >"$work/out" 2>"$work/err" || { echo "FAIL: $name, $side"; tail -n 5 "$work/err"; failures=$((failures + 1)); return 1; }
    for key in step_ms comm_ms comm_exposed_ms; do sample "$name" "$side" "$key" "$(series "$key" | median)"; done
}
one_core=(mpirun --bind-to core --map-by core)
shared=(mpirun --bind-to none --oversubscribe --mca mpi_yield_when_idle 1)
launcher=()

# show CASE SIDE
show() {
    local key value line=
    for key in step_ms comm_ms comm_exposed_ms; do
        value=$(middle "$1" "$2" $key)
        line+=$(printf '  %s %.1f' "$key" "${value:-nan}")
        record "$1" "$2" $key "$value" ms
    done
    printf '%-36s %-28s%s\n' "$1" "$2" "$line"
}
over() { # CASE QUANTITY SIDE QUANTITY SIDE: empty when one of them is missing
    local a b
    a=$(middle "$1" "$3" "$2") b=$(middle "$1" "$5" "$4")
    [ -n "$a" ] && [ -n "$b" ] && calc "$a / $b"
}
# figure CASE WHAT VALUE: a figure without a bar
figure() {
    if $self_test || [ -z "$3" ]; then return 0; fi
    printf '%-36s %-28s  %.3f\n' "$1" "$2" "$3"
    record "$1" figure "$2" "$3" ratio
}
exposed() { over "$1" comm_exposed_ms "$2" step_ms "$2"; }

# The bandwidth of one core and of two at the same time: it limits every sum.
bandwidth() {
    local one both
    taskset -c 0 "$CLTRAIN" bench memory --seconds 1 --json "$work/one.json" >/dev/null
    taskset -c 1 "$CLTRAIN" bench memory --seconds 1 --json "$work/b.json" >/dev/null &
    taskset -c 0 "$CLTRAIN" bench memory --seconds 1 --json "$work/a.json" >/dev/null
    wait
    one=$(json_number "$work/one.json" stream_gbs)
    both=$(calc "$(json_number "$work/a.json" stream_gbs) + $(json_number "$work/b.json" stream_gbs)")
    printf 'memory: one busy core %.1f GB/s, two %.1f GB/s together\n' "$one" "$both"
    record bandwidth "one core" stream_gbs "$one" GB/s
    record bandwidth "two cores" stream_gbs "$both" GB/s
}

# in_turns CASE STEPS SIDE RANKS SIDE RANKS: two sides take turns, with the settings in `first` and `second`, then both are shown
in_turns() {
    local name=$1 steps=$2 round
    for ((round = 0; round < rounds; round++)); do
        train "$name" "$3" "$4" "$steps" "${first[@]}"
        train "$name" "$5" "$6" "$steps" "${second[@]}"
    done
    show "$name" "$3"
    show "$name" "$5"
}
first=() second=()

weak() { # case, steps, per-rank batch, settings...
    local name=$1 steps=$2 batch=$3
    shift 3
    wanted "$name" || return 0
    launcher=("${one_core[@]}")
    first=("$@" data.micro_batch="$batch" data.global_batch="$batch")
    second=("$@" data.micro_batch="$batch" data.global_batch=$((2 * batch)))
    in_turns "$name" "$steps" "1 rank" 1 "2 ranks" 2
    bar "$name" "$name: efficiency of 2 ranks" "$(over "$name" step_ms "1 rank" step_ms "2 ranks")" ">=" 0.93
    bar "$name" "$name: exposed communication over the step" "$(exposed "$name" "2 ranks")" "<=" 0.05
}

# Each launch is made so long that the launches of a step take BENCH_IDLE_MS together.
accelerator() { # ranks
    local name="simulated accelerator, $1 ranks" launches
    wanted "$name" || return 0
    [ -f "$shim" ] || { skip "$name" "no $shim"; return 0; }
    ours bench step "${gpt2[@]}" "${short[@]}" data.micro_batch=1 --warmup 0 --steps 1 --json "$work/step.json"
    launches=$(json_number "$work/step.json" commands)
    launcher=("${shared[@]}")
    first=("${gpt2[@]}" "${short[@]}" data.micro_batch=1 data.global_batch=1)
    second=("${gpt2[@]}" "${short[@]}" data.micro_batch=1 data.global_batch="$1")
    # Devices are tested and programs are built before, while launches still compute.
    local quiet=(env POCL_MAX_PTHREAD_COUNT=4 "CLTRAIN_CACHE_DIR=$work/cache.$1" "LD_PRELOAD=$shim")
    own_env=("${quiet[@]}")
    train "$name" "first start" 1 2 "${first[@]}"
    train "$name" "first start" "$1" 2 "${second[@]}"
    own_env=("${quiet[@]}" "CLT_SHIM=launch:!probe:idle=$(awk "BEGIN { printf \"%d\", 1000 * $idle_ms / $launches }")")
    in_turns "$name" 12 "1 rank" 1 "$1 ranks" "$1"
    own_env=()
    bar "$name" "$name: exposed communication over the step" "$(exposed "$name" "$1 ranks")" "<=" 0.05
}

same_batch() {
    local name="4 micro-batches"
    wanted "$name" || return 0
    launcher=("${shared[@]}")
    first=("${gpt2[@]}" "${long[@]}" data.micro_batch=2 data.global_batch=8)
    second=("${first[@]}")
    in_turns "$name" 5 "1 rank" 1 "4 ranks" 4
    bar "$name" "$name: step of 4 ranks over that of 1 rank" "$(over "$name" step_ms "4 ranks" step_ms "1 rank")" "<=" 1.08
}

# A rank on each of two hosts with 1 Gbit/s between them. A rank sends and receives every byte of the
# gradients once, so the link is busy for their bytes at 125 MB/s.
two_hosts() {
    local name="two hosts, 1 Gbit/s, bf16" why round bytes wire alone
    wanted "$name" || return 0
    if why=$(hosts_refused); then skip "$name" "$why"; return 0; fi
    trap 'remove_hosts; rm -rf "$work"' EXIT
    if ! make_hosts 1 2>"$work/refused" || ! limit_link 1gbit 2>"$work/refused"; then
        skip "$name" "$(tail -n 1 "$work/refused")"
        return 0
    fi
    for ((round = 0; round < rounds; round++)); do
        launcher=("${one_core[@]}")
        train "$name" "1 rank" 1 5 "${gpt2[@]}" "${long[@]}" data.micro_batch=4 data.global_batch=4
        launcher=("$work/start.sh")
        # shellcheck disable=SC2016 # the ranks' shells read it
        own_env=(sh -c 'exec taskset -c "$OMPI_COMM_WORLD_RANK" "$@"' sh) # both hosts have the same cores
        train "$name" "2 ranks" 2 5 "${gpt2[@]}" "${long[@]}" data.micro_batch=4 data.global_batch=8 parallel.gradients=bf16
        own_env=()
    done
    bytes=$(series comm_bytes | tail -n 1)
    remove_hosts
    show "$name" "1 rank"
    show "$name" "2 ranks"
    wire=$(calc "$bytes / 125000") alone=$(middle "$name" "1 rank" step_ms)
    printf '%-36s %-28s  %.1f ms for %.0f bytes\n' "$name" link "$wire" "$bytes"
    bar "$name" "$name: step over the longer of computing and the link" \
        "$(calc "$(middle "$name" "2 ranks" step_ms) / ($alone > $wire ? $alone : $wire)")" "<=" 1.1
}

# The optimizer's state divided among ranks, against the whole state on each rank.
sharded() {
    local name="parallel.shard=optimizer"
    wanted "$name" || return 0
    launcher=("${one_core[@]}")
    first=("${gpt2[@]}" "${long[@]}" data.micro_batch=4 data.global_batch=8)
    second=("${first[@]}" parallel.shard=optimizer)
    in_turns "$name" 5 "none" 2 "optimizer" 2
    bar "$name" "$name: step over that without it" "$(over "$name" step_ms optimizer step_ms none)" "<=" 1.05
}

# Batch norms over the samples of both ranks, against batch norms of each rank alone: forty exchanges in a
# step.
synchronised() {
    local name="parallel.sync_batch_norm" batch=64
    wanted "$name" || return 0
    if $self_test; then batch=4; fi
    cat >"$work/resnet.json" <<JSON
{"model": {"type": "resnet", "depth": 18, "stem": "cifar", "width": 16, "classes": 10},
 "data": {"type": "synthetic", "shape": [3, 32, 32], "classes": 10, "samples": 2048, "micro_batch": $batch, "global_batch": $((2 * batch))},
 "optimizer": {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9}}
JSON
    launcher=("${one_core[@]}")
    first=("$work/resnet.json")
    second=("${first[@]}" parallel.sync_batch_norm=true)
    in_turns "$name" 40 "false" 2 "true" 2
    figure "$name" "step, true over false" "$(over "$name" step_ms "true" step_ms "false")"
    figure "$name" "exposed over the step, false" "$(exposed "$name" "false")"
    figure "$name" "exposed over the step, true" "$(exposed "$name" "true")"
}

warmup=2
if $self_test; then warmup=1; fi
bandwidth
weak "GPT-2 124M, B=4 T=256" 6 4 "${gpt2[@]}" "${long[@]}"
weak "MLP 784-512-512-10, batch 128" 300 128 "${mlp[@]}"
accelerator 2
accelerator 4
same_batch
sharded
synchronised
two_hosts
finish
