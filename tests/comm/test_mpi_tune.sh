#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 14 ctest-optimise: no
#
# Tuning records under MPI: those of rank 0 are used by every rank with the same device, including records measured at the start,
# and are pinned for the next start.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
unset CLTRAIN_GEMM
put=$CLTRAIN_BUILD_DIR/tests/put_record
# One compute unit for each process, so that a record fits whatever the number of ranks.
export POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1
# two A B: runs two ranks, each with its own caches
two() {
    local a=$1 b=$2
    shift 2
    expect_code 0 "${mpi[@]}" 1 env CLTRAIN_CACHE_DIR="$work/$a" "$CLTRAIN" train net.json "$@" : \
        -np 1 env CLTRAIN_CACHE_DIR="$work/$b" "$CLTRAIN" train net.json "$@"
}
model() { echo "$1/checkpoints/step_6/model.safetensors"; }

net mlp 'model.hidden=[48]' model.activation=tanh data.samples=64 'data.shape=[80]' data.classes=3 data.micro_batch=16 optimizer.learning_rate=0.02 \
    train.steps=6 checkpoint.every=3 checkpoint.keep=0 >net.json
CLTRAIN_CACHE_DIR=$work/empty expect_code 0 "$CLTRAIN" devices # answers that all folders have
cp -r empty full
cp -r empty measured
cp -r empty nothing
CLTRAIN_CACHE_DIR=$work/full expect_code 0 "$put" 'NT m=16 n=48 k=80 batch=1 f32*f32->f32' simple

two empty empty --out none
with_log none
expect_text '^tuning +0 of'
two full full --out both
with_log both
expect_text '^tuning +1 of'
two full empty --out first # rank 0's record is everybody's
with_log first
expect_text '^tuning +1 of'
expect_same "$(model both)" "$(model first)"
two empty full --out second # and rank 1's is nobody's
with_log second
expect_text '^tuning +0 of'
expect_same "$(model none)" "$(model second)"
if cmp -s "$(model both)" "$(model none)"; then note_skip 'simple and the default give the same bits here'; fi

# --- pinned ---
mkdir -p half/checkpoints
cp first/config.resolved.json first/metrics.jsonl half/
cp -r first/checkpoints/step_3 half/checkpoints/
two empty empty --out half --resume auto
with_log half
expect_text 'kept from the checkpoint'
expect_same "$(model both)" "$(model half)"

# --- rank 0 has pinned choices, another rank, with another device, has none: both continue ---
mkdir -p mixed/checkpoints
cp first/config.resolved.json first/metrics.jsonl mixed/
cp -r first/checkpoints/step_3 mixed/checkpoints/
on=(train net.json --out mixed --resume auto device.tune=on device.tune_seconds=1)
expect_code 0 "${mpi[@]}" 1 env CLTRAIN_CACHE_DIR="$work/empty" "$CLTRAIN" "${on[@]}" : \
    -np 1 env POCL_MAX_PTHREAD_COUNT=2 POCL_CPU_MAX_CU_COUNT=2 CLTRAIN_CACHE_DIR="$work/empty" "$CLTRAIN" "${on[@]}"
expect_text '^done: 6 steps'
with_log mixed
expect_text 'kept from the checkpoint'

# --- measured by rank 0, for both: everything, however long that takes, while the other rank waits ---
export CLTRAIN_GEMM=simple
two measured nothing --out on device.tune=on device.tune_seconds=3600 parallel.start_deadline=1000000
with_log on
expect_text 'problems tuned \(on\), choices .*measured'
expect_file measured/tuning/*.json
expect_absent nothing/tuning
two measured nothing --out on-again device.tune=on
with_log on-again
reject_text 'measured for'
expect_same "$(model on)" "$(model on-again)"
finish
