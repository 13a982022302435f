#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 20
# ctest-optimise: no
#
# parallel.rank_invariant: 1, 2 and 4 ranks with the same global batch compute the same bits, also with
# low-rank adapters, and when a run resumes with another number of ranks. A batch that cannot be divided in
# this way is refused before step 0.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

write_text
cat >gpt.json <<'JSON'
{"model": {"type": "gpt", "layers": 1, "heads": 3, "channels": 15, "context": 19, "dropout": 0.1},
 "data": {"type": "text", "path": "text", "split": 0.3, "micro_batch": 3, "global_batch": 24}, "parallel": {"rank_invariant": true},
 "optimizer": {"clip": 1}, "train": {"steps": 12, "eval_every": 6, "eval_batches": 3}, "checkpoint": {"every": 4}}
JSON
# Ignored targets, unevenly distributed, dropout, and statistics that ranks average.
cat >graph.json <<'JSON'
{"model": {"type": "graph", "layers": [
   {"op": "linear", "name": "stem", "out": 32}, {"op": "batch_norm"}, {"op": "relu"}, {"op": "dropout", "p": 0.2},
   {"op": "linear", "out": 5}, {"op": "cross_entropy", "ignore_index": 2}]},
 "data": {"type": "synthetic", "samples": 500, "shape": [12], "classes": 5, "noise": 1.0, "micro_batch": 4, "global_batch": 32},
 "parallel": {"rank_invariant": true}, "checkpoint": {"every": 4},
 "optimizer": {"type": "sgd", "momentum": 0.9, "learning_rate": 0.05, "clip": 0.7}, "train": {"steps": 12, "eval_every": 6}}
JSON

# equal RUN_A RUN_B: compares the bits of checkpoints, losses, norms and evaluations.
equal() {
    local key
    for key in model optimizer; do
        expect_same "$1/checkpoints/step_12/$key.safetensors" "$2/checkpoints/step_12/$key.safetensors"
    done
    for key in loss grad_norm; do
        expect_same <(values $key "$1/metrics.jsonl") <(values $key "$2/metrics.jsonl")
    done
    for key in eval_loss eval_accuracy eval_samples; do # a run in parts is evaluated at the end of each
        expect_same <(values $key "$1/metrics.jsonl" | tail -n 1) <(values $key "$2/metrics.jsonl" | tail -n 1)
    done
}
# invariant NAME CONFIG RANKS OPTION...: compares one rank with each number of RANKS.
invariant() {
    local name=$1 ranks
    expect_code 0 "$CLTRAIN" train "$2" "${@:4}" --out "$name"
    for ranks in $3; do
        expect_code 0 "${mpi[@]}" "$ranks" "$CLTRAIN" train "$2" "${@:4}" --out "$name.$ranks"
        equal "$name" "$name.$ranks"
    done
}
invariant graph graph.json '2 4 8'
invariant gpt gpt.json '2 4'
invariant shard gpt.json '2 4' parallel.shard=optimizer
# Several buckets, each summed as soon as it is complete.
invariant wide graph.json '2' 'model.layers=[{"op": "linear", "out": 300}, {"op": "batch_norm"}, {"op": "relu"}, {"op": "linear", "out": 290},
    {"op": "linear", "out": 5}, {"op": "cross_entropy"}]' parallel.bucket_mb=0.07 parallel.first_bucket_mb=0.004
# Low-rank adapters: the same adapters, and the base that every rank began with.
adapters=(model.lora_rank=4 'model.lora_targets=["c_attn", "mlp.c_proj"]' model.lora_dropout=0.1 optimizer.learning_rate=0.01)
invariant lora gpt.json '2 4' "${adapters[@]}"
invariant lora_shard gpt.json '2 4' "${adapters[@]}" parallel.shard=optimizer
for part in model optimizer; do expect_same lora{,_shard}/checkpoints/step_12/$part.safetensors; done
expect_code 0 "$CLTRAIN" train gpt.json "${adapters[@]}" --max-steps 4 --out lora.short
for name in wte.weight h.0.attn.c_attn.weight h.0.mlp.c_proj.bias h.0.mlp.c_proj.lora_B.weight; do
    tensor lora.short/checkpoints/step_4/model.safetensors $name >early
    tensor lora.4/checkpoints/step_12/model.safetensors $name >late
    if [ -s early ]; then pass; else fail "there is no tensor $name"; fi
    case $name in *lora_B*) expect_code 1 cmp -s early late ;; *) expect_same early late ;; esac
done
if all_cases; then
    invariant half gpt.json '2 4' precision.mode=f16 precision.loss_scale=1e8
    invariant muon gpt.json '2 4' optimizer.type=muon
    invariant lamb gpt.json '2' optimizer.type=lamb
    invariant whole graph.json '2 4' train.steps=12 data.micro_batch=8 optimizer.clip=0
fi
# In another order sums differ only by rounding, but the statistics of batch_norm differ more, so this case
# is the GPT.
expect_code 0 "$CLTRAIN" train gpt.json parallel.rank_invariant=false --out plain
apart=$(paste <(values loss plain/metrics.jsonl) <(values loss gpt/metrics.jsonl) | awk '
    { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d } END { if (NR != 12 || worst > 2e-5) print NR " losses, worst " worst }')
if [ -z "$apart" ]; then pass; else fail "sums in another order: $apart"; fi

# --- resuming with other numbers of ranks ---
expect_code 0 "${mpi[@]}" 4 "$CLTRAIN" train graph.json --out other --max-steps 4
expect_code 0 "$CLTRAIN" train graph.json --out other --resume auto --max-steps 8
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train graph.json --out other --resume auto
expect_text 'resumed from other/checkpoints/step_8'
equal graph other

# --- memory: the sums of 1, 2 and 4 micro-batches wait in arenas of their own; without accumulation there are none ---
gradients() { expect_code 0 "$CLTRAIN" estimate "$@" && sed -n 's/^memory .*, gradients \([0-9.]*\) KiB,.*/\1/p' "$out"; }
plain=$(gradients gpt.json parallel.rank_invariant=false)
tree=$(gradients gpt.json)
one=$(gradients gpt.json data.global_batch=3)
if awk -v p="$plain" -v t="$tree" -v o="$one" 'BEGIN { exit !(p > 0 && t > 3.9 * p && t < 4.1 * p && o == p) }'; then pass; else
    fail "gradients take $plain, with a tree of 8 micro-batches $tree, of one $one"
fi

# --- what ranks exchange for a model with adapters: gradients of A (4,15) and (4,60), and of B (45,4) and
# (15,4), each in a chunk of 1024 ---
exchanged() { # of a device with memory of its own, where they pass through the host's
    expect_code 0 "$CLTRAIN" estimate gpt.json --device generic --ranks 2 "$@" && sed -n -E 's/.* ([0-9.]+ [KM]iB) of host memory, for gradients.*/\1/p' "$out"
}
expect_same <(exchanged "${adapters[@]}") <(echo '16.0 KiB')
expect_same <(exchanged) <(echo '76.0 KiB') # without adapters: of all 16 tensors

# --- refused ---
expect_code 2 "${mpi[@]}" 3 "$CLTRAIN" train gpt.json --out never
expect_text 'parallel.rank_invariant the number of ranks must be a power of two, and there are 3'
expect_code 2 "$CLTRAIN" train gpt.json data.global_batch=18 --out never
expect_text 'the number of micro-batches in a step must be a power of two.*18 is 6 times data.micro_batch 3'
expect_code 2 "$CLTRAIN" train gpt.json data.micro_batch=1 data.global_batch=512 --out never
expect_text 'at most 256 micro-batches in a step, and this is 512'
expect_code 2 "$CLTRAIN" train gpt.json parallel.gradients=bf16 --out never
expect_text 'parallel.gradients.*must be f32 with parallel.rank_invariant'
expect_absent never
finish
