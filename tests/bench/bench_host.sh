#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The cost of the main thread: its CPU time per step outside of OpenCL calls, as a fraction of the step. Options and environment:
# benchlib.sh.
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"

measure() { # case, limit in % of the step or nothing, config, arguments
    local name=$1 limit=$2 step host share
    shift 2
    wanted "$name" || return 0
    for ((round = 0; round < rounds; round++)); do our_step "$name" "$@"; done
    step=$(middle "$name" cltrain step_ms) host=$(middle "$name" cltrain host_outside_opencl_ms)
    if [ -z "$host" ]; then echo "FAIL: bench step gives no host_outside_opencl_ms"; failures=$((failures + 1)); return; fi
    share=$(calc "100 * $host / $step")
    printf '%-28s step %10.3f ms, main thread outside OpenCL calls %8.4f ms: %.3f %%\n' "$name" "$step" "$host" "$share"
    record "$name" cltrain step_ms "$step" ms
    record "$name" cltrain host_outside_opencl_ms "$host" ms
    record "$name" cltrain host_percent "$share" %
    [ -z "$limit" ] || bar "$name" "$name: main thread outside OpenCL, % of the step" "$share" "<=" "$limit"
}
if $self_test; then
    measure "tiny MLP" "" "$here/mlp.json" model.hidden=[8,8] model.outputs=3 data.shape=[12] data.classes=3 data.micro_batch=4 --warmup 1 --steps 5
    finish
fi
measure "GPT-2 124M, B=4 T=64" 2 "$root/configs/gpt2-124m.json" data.micro_batch=4 data.global_batch=4 model.context=64 --warmup 1 --steps 5
$quick || measure "MLP, batch 128" "" "$here/mlp.json" --warmup 20 --steps 1000
finish
