#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 20 ctest-optimise: no
#
# Parameters that need two buffers because devices allow no larger one (driver_shim.c): ranks cut them in
# the same way, also if only one of their devices has that limit; and divided optimizer state, where the
# second buffer is so small that one rank has no share of it.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
need_shim
own_cache "$work/cache"
cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [150, 150]},
 "data": {"type": "synthetic", "samples": 500, "shape": [12], "classes": 5, "noise": 1.0, "micro_batch": 4, "global_batch": 16},
 "optimizer": {"type": "adamw", "learning_rate": 0.01, "clip": 0.5}, "train": {"steps": 6, "log_every": 1}, "device": {"tune": "off"}}
JSON
small=114688 # 28 chunks of 4 KiB; one of them stays free for the loss records
# rank.sh LARGEST0 LARGEST1 COMMAND...: the largest buffer of each rank's device; "-": its own.
cat >rank.sh <<'RANK'
largest=("$1" "$2")
shift 2
bytes=${largest[${OMPI_COMM_WORLD_RANK:-0}]}
export LD_PRELOAD=$SHIM
[ "$bytes" = - ] || export CLT_SHIM=largest=$bytes
exec "$@"
RANK
export SHIM=$shim
# two LARGEST0 LARGEST1 OUT [KEY...]: two ranks.
two() { expect_code 0 "${mpi[@]}" 2 bash rank.sh "$1" "$2" "$CLTRAIN" train net.json --out "${@:3}" && reject_text "goes without"; }
# equal A B: parameters, optimizer state and losses, bitwise.
equal() {
    local file
    for file in model optimizer; do expect_same "$1/checkpoints/step_6/$file.safetensors" "$2/checkpoints/step_6/$file.safetensors"; done
    for file in loss grad_norm; do expect_same <(values $file "$1/metrics.jsonl") <(values $file "$2/metrics.jsonl"); done
}
# The device is asked for its capabilities before its buffers are limited: self-tests need larger ones.
expect_code 0 bash rank.sh - - "$CLTRAIN" devices
expect_code 0 bash rank.sh $small - "$CLTRAIN" plan net.json --full --ranks 2
expect_text 'slab 1  element          0  fc1.bias \(150\)' '1 slab 1  element          0 +1024 elements'
reject_text 'slab 1  element +[1-9]'

# Without work-groups the partial norms are those of chunks in one order, so another cut changes no bit.
export CLTRAIN_UPDATE=lane
two - - whole
two $small $small cut
equal whole cut
unset CLTRAIN_UPDATE
for limits in "- $small" "$small -"; do
    rm -rf mixed
    two $limits mixed
    [ -d limited ] || two $small $small limited
    equal limited mixed
done
# Divided state: the same bits as not divided.
for optimizer in lamb $(all_cases && echo adamw muon); do
    two $small $small "$optimizer" optimizer.type="$optimizer"
    two $small - "$optimizer.shard" optimizer.type="$optimizer" parallel.shard=optimizer
    equal "$optimizer" "$optimizer.shard"
done
# One rank and two, whose micro-batches are added up as a tree.
expect_code 0 bash rank.sh $small - "$CLTRAIN" train net.json parallel.rank_invariant=true --out tree
two - $small tree2 parallel.rank_invariant=true
equal tree tree2
finish
