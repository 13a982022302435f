#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# Training with wgmma on the simulated NVIDIA GPU (tests/ptx): the program for sm_90a is kept as a binary and loaded again, and a
# driver that refuses such programs when they are created, built or launched costs the capability, once and by name, and nothing
# else: `mma` computes the products. First a driver that begins to refuse after its self-tests, then drivers that refuse, crash,
# hang or compute wrong numbers from the start.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/ptx_exec_lib.sh"
export CLTRAIN_PTX_SM=90 CLTRAIN_PTX_COUNTS=$work/counts
export CLTRAIN_PROBE_SECONDS=1000000 # no answer is too slow
export CLTRAIN_GEMM=wgmma # the products are too small for it to be chosen
cat >mlp.json <<'JSON'
{"model": {"type": "mlp", "hidden": [32], "outputs": 8},
 "data": {"type": "synthetic", "samples": 256, "shape": [16], "classes": 8, "micro_batch": 16},
 "optimizer": {"type": "adamw", "learning_rate": 0.01, "clip": 1},
 "precision": {"mode": "bf16"}, "train": {"steps": 6, "log_every": 1}, "device": {"tune": "off"}}
JSON

# trained NAME OPTION...: trains once; writes the losses to NAME.loss, the launches to counts; no rule may
# be violated.
trained() {
    local name=$1
    shift
    rm -f counts report
    expect_code 0 "$CLTRAIN" train mlp.json --out "$name" "$@"
    if [ -s report ]; then fail "$name: $(head -n 1 report)"; else pass; fi
    values loss "$name/metrics.jsonl" >"$name.loss"
    if [ "$(wc -l <"$name.loss")" -eq 6 ]; then pass; else fail "$name: losses of 6 steps expected"; fi
}
launched() { # KERNEL WHETHER
    if grep -q "^$1 " counts; then found=yes; else found=no; fi
    if [ "$found" = "$2" ]; then pass; else fail "$1 was launched: $found, expected: $2"; fi
}

trained mma --caps=-wgmma
launched gemm_fwd_mma yes
launched gemm_fwd_wgmma no

trained good
reject_text 'continues without' 'goes without .wgmma'
launched gemm_fwd_wgmma yes
paste mma.loss good.loss >both
expect_awk 'wgmma gives other losses' '{ d = $1 - $2; if (NF != 2 || d > 1e-3 || d < -1e-3) bad = 1 } END { exit bad || NR < 6 }' both
if grep -rqsa 'target sm_90a' cache; then pass; else fail "no program for sm_90a was kept"; fi
CLTRAIN_PTX_CLANG=false CLTRAIN_PTX_CACHE='' trained kept # nothing can be compiled
launched gemm_fwd_wgmma yes
expect_same good.loss kept.loss

for what in create build launch; do
    cp -r cache "cache_$what"
    CLTRAIN_CACHE_DIR=$work/cache_$what CLTRAIN_PTX_REFUSE=$what trained "$what"
    expect_text 'continues without capability wgmma'
    if [ "$(grep -c 'continues without' "$out")" -eq 1 ]; then pass; else fail "$what: more than wgmma was given up"; fi
    launched gemm_fwd_wgmma no
    launched gemm_fwd_mma yes
    expect_same mma.loss "$what.loss"
done
# A driver that later refuses only large programs costs a tile; one that refuses them from the start costs all large tiles.
export CLTRAIN_PTX_LOCAL=232448
CLTRAIN_CACHE_DIR=$work/roomy trained roomy
launched gemm_fwd_wgmma yes
expect_same good.loss roomy.loss
CLTRAIN_CACHE_DIR=$work/roomy CLTRAIN_PTX_REFUSE=large trained tile
expect_text 'continues without tile bm=.* of variant .wgmma.'
reject_text 'without capability'
launched gemm_fwd_wgmma yes
expect_same good.loss tile.loss
expect_code 0 env CLTRAIN_CACHE_DIR="$work/fresh_large" CLTRAIN_PTX_REFUSE=large "$CLTRAIN" devices
reject_text 'goes without wgmma' # no driver promises so much
expect_text 'caps .*mma_tf32,wgmma$'
expect_code 0 env CLTRAIN_CACHE_DIR="$work/fresh_large" CLTRAIN_PTX_REFUSE=large "$CLTRAIN" devices --json
expect_text '"local_retargeted_bytes": 0,' 'a program for sm_90a has no more than 48 KiB'
unset CLTRAIN_PTX_LOCAL
# An assembler that takes 163 KiB for sm_90a, and 48 for sm_90: the tiles that fit.
expect_code 0 env CLTRAIN_CACHE_DIR="$work/fresh_middle" CLTRAIN_PTX_LOCAL_90A=166912 "$CLTRAIN" devices --json
expect_text '"local_proven_bytes": 49152,' '"local_retargeted_bytes": 163840,' '"wgmma_large",'
# A driver's binary may or may not end with a zero byte that it counts; it gets back what it gave.
for nul in required refused; do
    expect_code 0 env CLTRAIN_CACHE_DIR="$work/fresh_$nul" CLTRAIN_PTX_NUL=$nul "$CLTRAIN" devices
    expect_text 'caps .*mma_tf32,wgmma$'
    CLTRAIN_CACHE_DIR=$work/fresh_$nul CLTRAIN_PTX_NUL=$nul trained "$nul"
    launched gemm_fwd_wgmma yes
done
# Lack of memory while such a program is loaded says nothing about the program: it ends the run with 70. Missing resources of the
# device cost the capability for this run only; the next one has it.
for what in memory:70 resources:0; do
    code=${what#*:} what=${what%:*}
    expect_code "$code" env CLTRAIN_CACHE_DIR="$work/fresh_$what" CLTRAIN_PTX_REFUSE="$what" "$CLTRAIN" train mlp.json --out "none_$what"
    if [ "$code" = 70 ]; then expect_text 'in a child process: loading a program for another target: CL_OUT_OF_HOST_MEMORY'; else expect_text 'goes without .wgmma. \(failed\): .*CL_OUT_OF_RESOURCES'; fi
    CLTRAIN_CACHE_DIR=$work/fresh_$what trained "next_$what"
    reject_text 'goes without .wgmma.' 'continues without'
    launched gemm_fwd_wgmma yes
    expect_same good.loss "next_$what.loss"
    rm -rf "fresh_$what/programs"
    expect_code "$code" env CLTRAIN_CACHE_DIR="$work/fresh_$what" CLTRAIN_PTX_REFUSE="$what" "$CLTRAIN" train mlp.json --out "turned_$what"
    if [ "$code" = 70 ]; then expect_text 'preparing .*: loading a program for another target: CL_OUT_OF_HOST_MEMORY'; else expect_text 'continues without capability wgmma'; fi
    CLTRAIN_CACHE_DIR=$work/fresh_$what trained "last_$what"
    reject_text 'goes without .wgmma.' 'continues without'
done
# A probe in a child process meets each of these faults. After a failure the probe is asked again, and the
# device's other answers are remembered: where the driver hangs, only wgmma is asked for again, within a
# hundredth of the time limit.
for what in create:refused build:refused abort:crashed launch:failed hang:hung; do
    answer=${what#*:} what=${what%:*} seconds=1000000
    if [ "$what" = hang ]; then cp -r fresh_launch fresh_hang && seconds=$((40 * ${CLTRAIN_TEST_PATIENCE:-1})); fi
    expect_code 0 env CLTRAIN_CACHE_DIR="$work/fresh_$what" CLTRAIN_PTX_REFUSE="$what" CLTRAIN_PROBE_SECONDS=$seconds "$CLTRAIN" devices
    expect_text "goes without wgmma \($answer\)" 'caps .*mma_f16,mma_bf16,mma_tf32$'
done
# Products that are wrong only in the real kernel.
mkdir edited
sed 's/chunk ^ (row & 7)/chunk ^ (row \& 3)/' "$CLTRAIN_BUILD_DIR/kernels/gemm_wgmma.cl" >edited/gemm_wgmma.cl
expect_code 0 env CLTRAIN_CACHE_DIR="$work/fresh_wrong" CLTRAIN_KERNEL_DIR="$work/edited" "$CLTRAIN" devices
expect_text 'goes without wgmma \(wrong\): .*gemm.large_nn\[wgmma_f16\]' 'caps .*mma_f16,mma_bf16,mma_tf32$'
CLTRAIN_CACHE_DIR=$work/fresh_build trained asked # remembered
launched gemm_fwd_mma yes
expect_same mma.loss asked.loss
finish
