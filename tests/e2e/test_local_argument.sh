#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# Local memory above 48 KiB as an argument of the kernel (cl/kernels/local_argument.clh), on the simulated
# NVIDIA GPU (tests/ptx): an A100 whose compiler takes arrays of 48 KiB and whose kernels may have 163 KiB
# as an argument gets the same plan as one whose compiler takes arrays of 163, and its products are right.
# So are the products of an H100 that offers this memory to programs for sm_90a only as an argument. A limit
# between two tested sizes is found as the smaller of them.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/ptx_exec_lib.sh"
export CLTRAIN_PROBE_SECONDS=1000000 # no answer is too slow

# sizes ARRAY RETARGETED ARGUMENT: checks the sizes of local memory that probes have found.
sizes() {
    expect_code 0 "$CLTRAIN" devices --json
    expect_text "\"local_bytes\": 49152," "\"local_proven_bytes\": $1," "\"local_retargeted_bytes\": $2," "\"local_argument_bytes\": $3,"
}
# planned NAME: the options of all programs, which say what form each product has. The programs are not
# built, since clang does not know an option that `bench build` adds.
planned() {
    "$CLTRAIN" bench build "$CLTRAIN_SOURCE_DIR/configs/gpt2-124m.json" precision.mode=bf16 data.global_batch=0 model.layers=1 --json "$1.json" >"$out" 2>&1 || true
    grep '"options"' "$1.json" | sed 's/ -DLOCAL_ARGUMENT=1//' >"$1.plan"
    if grep -q gemm_fwd_mma "$1.plan"; then pass; else fail "$1: no plan"; fi
}

export CLTRAIN_PTX_SM=80 CLTRAIN_CACHE_DIR=$work/cache.none
sizes 49152 0 0
planned none
export CLTRAIN_PTX_LOCAL_ARRAY=166912 CLTRAIN_CACHE_DIR=$work/cache.array
sizes 166912 0 0
planned array
unset CLTRAIN_PTX_LOCAL_ARRAY
export CLTRAIN_PTX_LOCAL_ARGUMENT=100000 CLTRAIN_CACHE_DIR=$work/cache.less
sizes 49152 0 98304
export CLTRAIN_PTX_LOCAL_ARGUMENT=166912 CLTRAIN_CACHE_DIR=$work/cache.argument
sizes 49152 0 166912
planned argument
expect_same array.plan argument.plan
if cmp -s none.plan argument.plan; then fail 'the plan does not use the local memory'; else pass; fi
if grep -q 'LOCAL_ARGUMENT=1' argument.json && ! grep -q LOCAL_ARGUMENT array.json; then pass; else fail 'the way to local memory is not the right one'; fi
verified 6 'gemm.*[mma_f16_sm80_256x128x32_64x64_s4_k1]' --mode correct
verified 6 'gemm.*[mma_f16_sm80_128x256x32_64x64_s3_k2]' --mode correct
verified 6 'gemm.*[mma_tf32_sm80_256x128x16_64x64_s3_k2]' --mode correct
if grep -qs 'ptr .shared .align 16 gemm_fwd_mma' programs/*; then pass; else fail 'no kernel got its local memory as an argument'; fi

export CLTRAIN_PTX_SM=90 CLTRAIN_PTX_LOCAL_ARGUMENT=232448 CLTRAIN_CACHE_DIR=$work/cache.hopper
sizes 49152 0 232448
expect_text '"wgmma_large",' '"wgmma_wide"$'
verified 1 'gemm.tails_nt[wgmma_f16_192x256_s4_k1]' --mode correct
verified 1 'gemm.line_sums_forms[wgmma_bf16_128x128_s4_k2]' --mode correct
if grep -qs 'ptr .shared .align 16 gemm_fwd_wgmma' programs/*; then pass; else fail 'no program for sm_90a got its local memory as an argument'; fi
finish
