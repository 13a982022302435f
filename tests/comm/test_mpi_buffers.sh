#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-optimise: no
#
# Buffers with several ranks: each rank computes them from its own samples, and after each step all ranks have the mean over the
# micro-batches.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

# momentum 1: the running mean is the mean of the last step's batch, however the batch is divided among the
# ranks.
cat >net.json <<'JSON'
{"model": {"type": "graph", "layers": [
   {"op": "batch_norm", "name": "bn", "momentum": 1}, {"op": "linear", "name": "out", "out": 4},
   {"op": "cross_entropy", "name": "class", "inputs": ["out", "y"]}]},
 "data": {"type": "synthetic", "samples": 64, "shape": [16], "classes": 4, "micro_batch": 8, "global_batch": 16, "workers": 1},
 "train": {"steps": 3, "eval_every": 3}}
JSON
# means RUN [STEP]: the running means, one a line.
means() {
    local file=$1/checkpoints/step_${2:-3}/model.safetensors length offsets
    length=$(od -An -tu8 -N8 "$file" | tr -d ' ')
    offsets=$(tail -c +9 "$file" | head -c "$length" | sed -E 's/.*"bn\.running_mean":\{[^}]*"data_offsets":\[([0-9]+),[0-9]+\].*/\1/')
    tail -c +$((9 + length + offsets)) "$file" | head -c 64 | od -An -v -tf4 -w4
}

for mode in f32 bf16; do
    expect_code 0 "$CLTRAIN" train net.json precision.mode=$mode data.micro_batch=16 --out whole.$mode
    expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json precision.mode=$mode --out $mode
    apart=$(paste <(means whole.$mode) <(means $mode) | awk '
        { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d; if ($1 * $1 > 1e-4) told++ }
        END { if (NR != 16 || told < 8 || worst > 2e-6) print NR " means, worst " worst }')
    if [ -z "$apart" ]; then pass; else fail "the mean of two ranks: $apart"; fi
    # One rank with the saved values gives the same evaluation as the two, each of which used its own.
    expect_code 0 "$CLTRAIN" eval $mode
    expect_text "loss $(printf '%.4f' "$(values eval_loss "$mode/metrics.jsonl" | tail -n 1)")"
done

# Three micro-batches over two ranks: rank 0 computes two of them, and its values count twice. These are the
# values of its last micro-batch, so the expected mean follows from runs of one rank that end with the
# second and with the third micro-batch.
uneven=(train net.json train.steps=1 train.eval_every=0)
expect_code 0 "$CLTRAIN" "${uneven[@]}" --out second
expect_code 0 "$CLTRAIN" "${uneven[@]}" data.global_batch=24 --out third
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" "${uneven[@]}" data.global_batch=24 --out uneven
apart=$(paste <(means second 1) <(means third 1) <(means uneven 1) | awk '
    { d = (2 * $1 + $2) / 3 - $3; if (d < 0) d = -d; if (d > worst) worst = d; half = ($1 + $2) / 2 - $3; if (half * half > 1e-6) told++ }
    END { if (NR != 16 || told < 8 || worst > 2e-6) print NR " means, worst " worst ", " told + 0 " differ from the plain mean" }')
if [ -z "$apart" ]; then pass; else fail "the mean of ranks with two micro-batches and one: $apart"; fi
finish
