#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 8
# ctest-optimise: no
#
# Ranks take whole volumes in an evaluation: Dice and the loss, whose mean is weighted by class, equal those
# of one rank, also if a rank has no volume; training with evaluations in between learns from the same
# patches.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
"$CLTRAIN_BUILD_DIR/tests/make_volumes" masks train --count 4 --size 12,16,16 --gz || fail 'no volumes were made'
"$CLTRAIN_BUILD_DIR/tests/make_volumes" masks val --count 2 --size 12,16,16 --seed 9 || fail 'no volumes were made'
cat >seg.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "reshape", "shape": [-1, 1]},
   {"op": "linear", "out": 8}, {"op": "relu"}, {"op": "linear", "out": 2}, {"op": "cross_entropy", "class_weights": [0.25, 2]}]},
 "data": {"type": "nifti", "path": "train", "eval_path": "val", "patch": [8, 8, 8], "patches_per_volume": 4, "mask_classes": 2,
   "window_low": -100, "window_high": 250, "micro_batch": 1, "global_batch": 6},
 "optimizer": {"learning_rate": 0.03}, "train": {"steps": 120, "seed": 3, "eval_every": 60}}
JSON
value() { sed -n "s/.*\"$1\": *\([-0-9.e]*\).*/\1/p" "$2" | head -n 1; }
near() { # WHAT A B: equal to 1e-6
    awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d < 1e-6 && d > -1e-6) }' && pass || fail "$1: $2 and $3"
}
expect_code 0 "$CLTRAIN" train seg.json --out one
expect_code 0 "$CLTRAIN" eval one --json one.eval
for ranks in 2 3; do
    expect_code 0 "${mpi[@]}" $ranks "$CLTRAIN" eval one --json many.eval
    for key in loss volume_dice volumes samples; do
        near "$ranks ranks, $key" "$(value $key one.eval)" "$(value $key many.eval)"
    done
    expect_code 0 "${mpi[@]}" $ranks "$CLTRAIN" train seg.json --out many$ranks
    for step in 60 120; do
        for run in one many$ranks; do grep "\"step\":$step,\"eval_loss\"" $run/metrics.jsonl >$run.line; done
        for key in eval_loss eval_volume_dice eval_volumes; do
            near "$ranks ranks, step $step, $key" "$(value $key one.line)" "$(value $key many$ranks.line)"
        done
    done
done
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" eval one train.eval_batches=1 --json many.eval
near 'one volume of two ranks' 1 "$(value volumes many.eval)"
finish
