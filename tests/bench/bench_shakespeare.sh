#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# nanoGPT's CPU setting as a whole: training time (sum over the steps, without evaluations), and the time from the start of the
# program to the end of its first step, once with empty caches of kernels and tuning records and then with both filled. Options and
# environment: benchlib.sh; BENCH_TEXT is the text to train on (default: the config's).
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"

config=$root/configs/gpt-shakespeare-cpu.json
steps=2000
tiny=()
if $self_test; then
    steps=3
    for ((i = 0; i < 400; i++)); do echo "line $i of a text that says little"; done >"$work/text"
    BENCH_TEXT=$work/text
    tiny=(model.layers=1 model.heads=2 model.channels=16 model.context=16 data.micro_batch=2 schedule.warmup=0)
fi
text=${BENCH_TEXT:-$root/$(sed -n -E 's/.*"path": "(.*)".*/\1/p' "$config")}
if [ ! -f "$text" ]; then
    skip training "there is no text '$text'; set BENCH_TEXT"
    finish
fi
overrides=(data.path="$text" ${tiny[@]+"${tiny[@]}"})

# start_once QUANTITY: measures the time to the first step, without tuning.
start_once() {
    ours train "$config" "${overrides[@]}" device.tune=off train.eval_every=1000000 --max-steps 2 --out "$work/start"
    rm -rf "$work/start"
    [ "${first_s%%.*}" != -1 ] || { echo "FAIL: no step line"; failures=$((failures + 1)); return; }
    sample start cltrain "$1" "$first_s"
}
for ((round = 0; round < rounds; round++)); do
    if $self_test; then break; fi # a cold start takes longer than a test may
    rm -rf "$work/caches"
    mkdir -p "$work/caches/pocl" "$work/caches/own"
    own_env=(env POCL_CACHE_DIR="$work/caches/pocl" CLTRAIN_CACHE_DIR="$work/caches/own" XDG_CACHE_HOME="$work/caches/own")
    start_once first_step_cold_s
    start_once first_step_warm_s
    start_once first_step_warm_s
    own_env=()
done
for kind in cold warm; do
    value=$(middle start cltrain first_step_${kind}_s)
    [ -n "$value" ] || continue
    echo "start to the end of the first step, caches $kind: $value s"
    record start cltrain first_step_${kind}_s "$value" s
    limit=25
    [ $kind = warm ] && limit=1.5
    bar start "start to first step, caches $kind, s" "$value" "<=" $limit
done

if ! $quick; then
    ours train "$config" "${overrides[@]}" train.steps=$steps --out "$work/run"
    total=$(sed -n -E 's/.*"step_ms":([-+.0-9eE]+),.*/\1/p' "$work/run/metrics.jsonl" | awk '{ s += $1; n++ } END { printf "%.3f %d", s / 1e3, n }')
    loss=$(sed -n -E 's/.*"eval_loss":([-+.0-9eE]+).*/\1/p' "$work/run/metrics.jsonl" | tail -n 1)
    echo "$steps steps: ${total% *} s of training, ${wall_s} s in all, validation loss ${loss:--}"
    [ "${total#* }" = $steps ] || { echo "FAIL: ${total#* } of $steps steps are recorded"; failures=$((failures + 1)); }
    record training cltrain seconds "${total% *}" s "$steps steps"
    [ -n "$loss" ] && record training cltrain eval_loss "$loss" nats
    bar training "nanoGPT's CPU setting, $steps steps, s of training" "${total% *}" "<=" 60
fi
finish
