#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 20 ctest-optimise: no
#
# Gradients of embeddings that ranks exchange as rows (parallel.embeddings): losses stay close to those with
# whole gradients, which add up in another order, and a repeated run has the same bits; with tied and untied
# tables, tables that several layers read, ranks with unequal numbers of micro-batches, half precision,
# divided optimizer state, and on both ways to the host.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
all_cases || export CLTRAIN_GEMM=simple

write_text
cat >gpt.json <<'JSON'
{"model": {"type": "gpt", "layers": 1, "heads": 3, "channels": 15, "context": 19},
 "data": {"type": "text", "path": "text", "micro_batch": 3, "global_batch": 6},
 "optimizer": {"type": "adamw", "learning_rate": 0.01, "clip": 1},
 "train": {"steps": 12, "eval_every": 6}, "checkpoint": {"every": 6}}
JSON
# A table that two layers read, one that only one layer reads, and one that is frozen.
cat >graph.json <<'JSON'
{"model": {"type": "graph", "freeze": "fixed.*", "layers": [
   {"op": "embedding", "name": "one", "vocab": 256, "dim": 12, "inputs": ["x"]},
   {"op": "linear", "name": "turn", "out": 12},
   {"op": "embedding", "name": "again", "share": "one", "vocab": 256, "dim": 12, "inputs": ["x"]},
   {"op": "gelu", "name": "bent"},
   {"op": "embedding", "name": "other", "vocab": 256, "dim": 12, "inputs": ["x"]},
   {"op": "embedding", "name": "fixed", "vocab": 256, "dim": 12, "inputs": ["x"]},
   {"op": "add", "name": "sum", "inputs": ["turn", "bent", "other", "fixed"]},
   {"op": "layernorm"}, {"op": "flatten"}, {"op": "linear", "out": 256}, {"op": "cross_entropy"}]},
 "data": {"type": "text", "path": "text", "window": 13, "micro_batch": 3, "global_batch": 6},
 "optimizer": {"type": "adamw", "learning_rate": 0.01}, "train": {"steps": 12, "eval_every": 6}, "checkpoint": {"every": 6}}
JSON

bytes_of() { values comm_bytes "$1/metrics.jsonl" | tail -n 1; }
equal() {
    expect_same "$1/checkpoints/step_12/model.safetensors" "$2/checkpoints/step_12/model.safetensors"
    expect_same "$1/checkpoints/step_12/optimizer.safetensors" "$2/checkpoints/step_12/optimizer.safetensors"
}
# follows NAME RANKS LIMIT CONFIG OPTION...: rows twice and dense; losses may differ by LIMIT, and the last one is well below the first.
follows() {
    local name=$1 ranks=$2 allowed=$3 apart
    shift 3
    expect_code 0 "${mpi[@]}" "$ranks" "$CLTRAIN" train "$@" parallel.embeddings=dense --out "$name.dense"
    expect_code 0 "${mpi[@]}" "$ranks" "$CLTRAIN" train "$@" parallel.embeddings=rows --out "$name.rows"
    expect_code 0 "${mpi[@]}" "$ranks" "$CLTRAIN" train "$@" parallel.embeddings=rows parallel.shared_memory=false parallel.bucket_mb=0.01 \
        --out "$name.again"
    equal "$name.rows" "$name.again"
    apart=$(paste <(values loss "$name.dense/metrics.jsonl") <(values loss "$name.rows/metrics.jsonl") | awk -v limit="$allowed" '
        NF != 2 { print "of different length"; exit }
        { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d; if (NR == 1) first = $1; last = $1 }
        END { if (NR != 12 || worst > limit || last > first - 0.1) print NR " losses from " first " to " last ", worst difference " worst }')
    if [ -z "$apart" ]; then pass; else fail "$name: $apart (limit $allowed)"; fi
}

# The table of 256 rows of 15 features is tied, so its sum stays, and rows and indices of 57 positions are
# added.
follows tied 2 1e-4 gpt.json
added=$(($(bytes_of tied.rows) - $(bytes_of tied.dense)))
if [ $added -gt $((57 * 15 * 4)) ] && [ $added -le $((57 * (15 * 4 + 4))) ]; then pass; else fail "rows of a tied table add $added bytes"; fi
# Untied and with one micro-batch, only rows and indices are exchanged.
follows untied 2 1e-4 gpt.json model.tied=false
saved=$(($(bytes_of untied.dense) - $(bytes_of untied.rows)))
if [ $saved -ge $((256 * 15 * 4 - 57 * (15 * 4 + 4))) ]; then pass; else fail "rows of an untied table save $saved bytes"; fi
# The automatic choice does the same, since both ranks together have fewer rows than the table; if whole
# tables were exchanged as well, that would not be few enough.
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train gpt.json model.tied=false --out auto
equal auto untied.rows
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train gpt.json --out auto.tied
equal auto.tied tied.dense
# A rank with two micro-batches and two with one.
follows uneven 3 1e-4 gpt.json data.global_batch=12 model.tied=false
if all_cases; then
    follows more 3 1e-4 gpt.json data.global_batch=15
    follows graph 2 1e-4 graph.json
    follows graphs 3 1e-4 graph.json data.global_batch=12
    for type in f16 bf16; do
        follows "wire_$type" 2 1e-2 gpt.json model.tied=false precision.mode=f16 precision.loss_scale=256 parallel.gradients=$type
        follows "wide_$type" 2 1e-2 graph.json parallel.gradients=bf16
    done
    # The first steps overflow, on all ranks.
    follows overflow 2 1e-2 graph.json precision.mode=f16 precision.loss_scale=4194304 precision.growth_interval=3
    for side in dense rows; do
        skipped=$(values skipped overflow.$side/metrics.jsonl | tail -n 1)
        if [ "$skipped" -ge 1 ] && [ "$skipped" -lt 12 ]; then pass; else fail "$side: $skipped skipped steps"; fi
    done
    expect_same <(values skipped overflow.dense/metrics.jsonl) <(values skipped overflow.rows/metrics.jsonl)
fi
# Divided optimizer state changes nothing.
for config in gpt graph; do
    expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train $config.json optimizer.type=lamb optimizer.clip=1 --out $config.whole
    expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train $config.json optimizer.type=lamb optimizer.clip=1 parallel.shard=optimizer --out $config.shared
    equal $config.whole $config.shared
    all_cases || break
done

# More positions than rows of the table: exchanging whole tables takes fewer bytes.
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train gpt.json model.tied=false data.micro_batch=7 data.global_batch=14 --out many
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train gpt.json model.tied=false data.micro_batch=7 data.global_batch=14 parallel.embeddings=dense --out many.dense
equal many many.dense
# All values are finite, their squares are not: values that the diagnosis has not gathered are not blamed.
sed 's/{"op": "layernorm"}, //' graph.json >wild.json
for kind in dense rows; do
    expect_code 6 "${mpi[@]}" 2 "$CLTRAIN" train wild.json optimizer.type=sgd optimizer.learning_rate=1e6 train.max_nonfinite=2 \
        parallel.gradients=bf16 parallel.embeddings=$kind --out wild.$kind
    grep -o 'first bad tensor.*' "$out" | head -n 1 >$kind.blamed
done
expect_same dense.blamed rows.blamed
# parallel.rank_invariant refuses rows: they would be added at another place of the tree.
expect_code 2 "$CLTRAIN" train gpt.json parallel.rank_invariant=true parallel.embeddings=rows --out tree
expect_text 'parallel.embeddings'
finish
