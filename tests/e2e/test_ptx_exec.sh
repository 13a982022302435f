#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-parts: products ops counts
# ctest-cost: 60
#
# Kernels for NVIDIA GPUs as PTX, executed on the host (tests/ptx): values compared with the checker's references, races, addresses,
# asynchronous copies in flight, reads of memory without a value. The short list; test_ptx_exec_full.sh has the rest.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/ptx_exec_lib.sh"

# sm_90 has all that sm_80 has, and wgmma.
export CLTRAIN_PTX_SM=90
expect_code 0 "$CLTRAIN" devices
expect_text 'PTX executor sm_90' 'caps .*ptx,mma_f16,mma_bf16,mma_tf32,wgmma$'

products() {
    verified 30 'gemm.*[mma*' --small
    verified 8 'gemm.odd*[wgmma*' --small
    verified 1 'gemm.deep_tiles[wgmma_bf16]' --mode correct
    # Windows of images as A (forward, image's gradient) and as B (weight's gradient), with each type of matrix units.
    for type in f16 bf16 tf32; do
        verified 2 "gemm.windows_n*[mma_$type]" --small --mode correct
        verified 1 "gemm.windows_tn*[mma_$type]" --small --mode correct
    done
    verified 6 'gemm.windows_*[wgmma_*' --small --mode correct
    verified 9 'gemm.windows_*[tile]' --small --mode correct
    verified 30 'gemm.*[tile*' --small
    # Moments of what is stored: tiles of wgmma, one of mma and one of tile with several tiles down and across.
    verified 9 'gemm.moments_forms*[wgmma_*' --mode correct
    verified 1 'gemm.moments_forms_aligned[mma_f16_sm80_64x128x32_32x64_s4_k1]' --mode correct
    verified 1 'gemm.moments_forms_aligned[tile_64x64x16_4x4_k1]' --mode correct
    verified 11 'gemm.tails_nt[tile_*' --mode correct # one of them has a predicate turned round by xor in its loop
    verified 22 'attention*[mma*' --small
    verified 8 'attention*[group*' --small --mode correct
    verified 2 'known.*fragment' --mode correct
    # A driver whose assembler takes 227 KiB of local memory for sm_90a and 48 for sm_90, for which programs are compiled first.
    export CLTRAIN_PTX_LOCAL_90A=232448 CLTRAIN_CACHE_DIR=$work/cache.large
    expect_code 0 "$CLTRAIN" devices --json
    expect_text '"local_proven_bytes": 49152,' '"local_retargeted_bytes": 232448,' '"wgmma_large",' '"wgmma_wide"$'
    verified 1 'gemm.tails_nn[wgmma_*128x256_s4_k1]' --mode correct
    verified 1 'gemm.tails_nt[wgmma_*192x256_s4_k1]' --mode correct
    verified 2 'gemm.line_sums_forms[wgmma_bf16_*8_s4_k*]' --mode correct
    # Stream-k: several tiles of a group, with and without parts of its own, sums of lines, windows.
    verified 5 'gemm.tails*_stream*' --mode correct
    verified 5 'gemm.line_sums*_stream*' --mode correct
    verified 2 'gemm.windows*_stream*' --mode correct
    # Each command costs a launch: gradients of biases come with those of weights.
    expect_code 0 "$CLTRAIN" plan "$CLTRAIN_SOURCE_DIR/configs/gpt2-124m.json" precision.mode=bf16 data.micro_batch=16 data.global_batch=16 model.context=1024 --full
    commands=$(awk '/^phase .* commands$/ { n += $3 } END { print n }' "$out")
    if [ "$commands" -gt 0 ] && [ "$commands" -le 370 ]; then pass; else fail "a step of GPT-2 has $commands commands"; fi
}

ops() {
    # Among the rows of layernorm are some that are not aligned. Results have the same bits in any order of
    # warps: tested here for sums over groups, in test_ptx_exec_full.sh for all ops.
    count
    verified 30 'update*' --small --mode correct
    verified 24 'layernorm*' --small --mode correct
    verified 4 'layernorm*[blocks]' --small --mode bitwise
    verified 10 'rmsnorm*' --small --mode correct
    verified 14 'batch_norm*' --small --mode correct # also what ranks that share statistics give each other, and make of it
    verified 8 'rotary*' --small --mode correct
    verified 45 'conv*' --small --mode correct
    verified 10 'group_norm*' --small --mode correct
    verified 3 'dice*' --small --mode correct
    verified 30 '*pool*' --small --mode correct
    verified 12 'upsample*' --small --mode correct
    verified 5 'bias*' --small # column sums
    verified 120 'builtins.*,groups.*,atomics.*,memory.*' --small
    verified 10 'linear_cross_entropy*' --small
    counted 'sectors' '^(update_|layernorm_.*_(group|blocks)|colsum)' 'read write' 110
}

counts() {
    # Channels of whole sectors.
    count
    verified 2 '*pool.blocks[flat]' --mode correct
    verified 1 'upsample.blocks[flat]' --mode correct
    counted 'sectors of pooling' '^(pool_sum|pool_spread|pool_max_fwd|upsample_fwd|upsample_bwd)' 'read write' 102
    # Full vectors everywhere: fragments, copies and sums written to C.
    count
    verified 3 'gemm.large_batch[mma*' --mode correct
    verified 2 'gemm.large_batch[wgmma*' --mode correct
    # A 3 x 3 layer of ResNet-50 on a smaller image, all three products.
    verified 3 'gemm.windows_large_*[mma_f16]' --mode correct
    verified 3 'gemm.windows_large_*[mma_tf32]' --mode correct
    verified 3 'gemm.windows_large_*[wgmma_bf16]' --mode correct
    counted 'passes over the banks and sectors of copies' '^gemm_fwd_w?g?mma' 'load store matrix' 100
    count
    verified 3 'gemm.windows_large_*[tile]' --mode correct
    counted 'sectors and passes of tile on windows' '^gemm_fwd_tile' 'read write load store' 100
    # At the widths of GPT-2, the bytes of the launch that moves most: 192 rows of dy, dx as it was, dx
    # (f32) and x (bf16), and two sums for each of 12 blocks; x and y; 2048 rows of dy (f32) and 46 blocks;
    # four rows of logits, which their gradients replace.
    count
    verified 1 'layernorm.vectors_768[blocks]' --mode correct
    least 'layernorm backward' '^layernorm_bwd_blocks' $((192 * 768 * (4 + 4 + 4 + 2) + 2 * 12 * 768 * 4)) 115
    least 'layernorm' '^layernorm_fwd_blocks' $((192 * 768 * (2 + 2) + 24 * 2 * 768 * 4)) 115
    count
    verified 1 'bias.vectors_768[flat]' --mode correct
    grep -q '^colsum.* -DVECTORS=1' counts && pass || fail "no column sums by vectors of four"
    least 'column sums' '^colsum' $((2048 * 768 * 4 + 46 * 768 * 4)) 115
    count
    verified 1 'linear_cross_entropy.held_50257[group]' --mode correct
    least 'logits to gradients' '^cross_entropy_bwd_record_group' $((4 * 2 * 50304 * 2)) 115
    # A training step in which gradients of logits replace the logits: neighbouring 16-bit values, each read
    # and written by its own thread, are not a race.
    cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [24]}, "precision": {"mode": "f16"}, "optimizer": {"type": "sgd", "learning_rate": 0.1},
 "data": {"type": "synthetic", "shape": [16], "classes": 10, "samples": 64, "micro_batch": 8}, "train": {"steps": 1}}
JSON
    rm -f report
    expect_code 0 "$CLTRAIN" train net.json --out run
    if [ -s report ]; then fail "training in f16: $(head -n 3 report)"; else pass; fi
}

"${1:?name a part: products, ops or counts}"
finish
