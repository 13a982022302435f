#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What looking at the device costs a training (docs/monitoring.md): steps of the MLP 784-512-512-10, batch 128, without monitoring,
# with it and a file for Prometheus once a second, and with a driver whose call hangs; in turns. Times are those of metrics.jsonl.
# Options and environment: benchlib.sh.
#
#   BENCH_NVML: tests/nvml_hang.so of a build (default: that of the program's folder)
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"

nvml=${BENCH_NVML:-$(dirname "$CLTRAIN")/tests/nvml_hang.so}
name="784-512-512-10, batch 128" steps=1500 warmup=50
tiny=()
if $self_test; then
    steps=60
    tiny=(model.hidden=[8,8] model.outputs=3 data.shape=[12] data.classes=3 data.micro_batch=4)
fi
# train SIDE SETTINGS...: one run; its median step
train() {
    local side=$1
    shift
    rm -rf "$work/run"
    ours train "$here/mlp.json" ${tiny[@]+"${tiny[@]}"} train.steps=$steps train.eval_batches=1 checkpoint.minutes=0 \
        checkpoint.final=false --out "$work/run" "$@"
    sample "$name" "$side" step_ms "$(sed -n -E '/"loss":/s/.*"step_ms":([-+.0-9eE]+)[,}].*/\1/p' "$work/run/metrics.jsonl" |
        tail -n "+$((warmup + 1))" | median)"
    sample "$name" "$side" wall_s "$wall_s"
}
sides=(off on)
if [ -f "$nvml" ]; then sides+=(hangs); else skip hangs "there is no '$nvml': build the tests, or set BENCH_NVML"; fi
for ((round = 0; round < rounds; round++)); do
    for side in "${sides[@]}"; do
        case $side in
        off) train off monitor.seconds=0 ;;
        on) train on monitor.seconds=1 monitor.prometheus="$work" ;;
        hangs)
            own_env=(env "CLTRAIN_NVML=$nvml" CLTRAIN_MONITOR_DEVICE=0000:65:00.0)
            train hangs monitor.seconds=1
            own_env=()
            ;;
        esac
    done
done
off=$(middle "$name" off step_ms)
for side in "${sides[@]}"; do
    ms=$(middle "$name" "$side" step_ms) wall=$(middle "$name" "$side" wall_s)
    printf '%s, monitoring %-6s %.3f ms a step, %.2f s in all\n' "$name" "$side" "$ms" "$wall"
    record "$name" "$side" step_ms "$ms" ms
    record "$name" "$side" wall_s "$wall" s
    [ $side = off ] || bar "$name" "a step more with monitoring $side, ms" "$(calc "$ms - $off")" "<=" 1
done
finish
