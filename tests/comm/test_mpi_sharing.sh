#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 10
#
# Two ranks on one GPU (a CPU device that claims to be one): a dry run refuses them as a run does, unless
# the config allows it. Then each rank has half of the memory, also after its device was opened again for
# the style of kernels of the checkpoint that it resumes from.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
gpu=$CLTRAIN_BUILD_DIR/tests/gpu_shim.so
[ -f "$gpu" ] || skip_all 'gpu_shim was not built'
unset CLTRAIN_GEMM CLTRAIN_EMULATE CLTRAIN_STYLE
export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
export POCL_DEVICES=pthread CLT_GPU_ADDRESSES=0000:17:00.0
own_cache "$work/cache"
need_lanes
LD_PRELOAD=$gpu "$CLTRAIN" devices >"$out" 2>&1
[ "$(grep -c '^[0-9]*:[01] *gpu' "$out")" -eq 1 ] || skip_all 'there is no single device (PoCL)'

net mlp 'model.hidden=[8192]' 'data.shape=[12]' data.micro_batch=8 data.global_batch=16 train.steps=2 checkpoint.every=2 device.tune=off >large.json
# Both ranks on a GPU that has enough memory for both of them, or only for one.
both=("${mpi[@]}" 2 env "LD_PRELOAD=$gpu" CLTRAIN_LIMITS=memory=8M)
one=("${mpi[@]}" 2 env "LD_PRELOAD=$gpu" CLTRAIN_LIMITS=memory=4M)
share=parallel.share_devices=true
expect_code 2 "${both[@]}" "$CLTRAIN" train large.json --dry-run
expect_text 'ranks 0 and 1 on .* would share the GPU .* .0000:17:00.0.'
expect_code 0 "${both[@]}" "$CLTRAIN" train large.json $share --dry-run
expect_text 'warning: 2 ranks on .* share the GPU'
expect_code 0 env LD_PRELOAD="$gpu" CLTRAIN_LIMITS=memory=4M "$CLTRAIN" train large.json --dry-run # one rank has all of it
expect_code 5 "${one[@]}" "$CLTRAIN" train large.json $share --dry-run
expect_text 'can give 2.0 MiB'
# Whichever style is faster, one of these checkpoints has the other style.
for style in lanes groups; do
    expect_code 0 "${both[@]}" env CLTRAIN_STYLE=$style "$CLTRAIN" train large.json $share --out $style
    expect_code 5 "${one[@]}" "$CLTRAIN" train large.json $share train.steps=4 --resume $style --out $style.on
    expect_text 'can give 2.0 MiB'
done
finish
