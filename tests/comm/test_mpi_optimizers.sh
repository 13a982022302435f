#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 30 ctest-optimise: no
#
# The optimizers other than SGD and Adam, as users run them: a repeated run and a resumed run give the same
# bits, in f32 and in half precision, and the losses of two ranks stay close to those of one rank, with
# equal parameters on both.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
all_cases || export CLTRAIN_GEMM=simple

write_gpt 1 15 3 14

# equal RUN_A RUN_B: compares the bits.
equal() {
    expect_same "$1/checkpoints/step_14/model.safetensors" "$2/checkpoints/step_14/model.safetensors"
    expect_same "$1/checkpoints/step_14/optimizer.safetensors" "$2/checkpoints/step_14/optimizer.safetensors"
}

# follows NAME ALLOWED MODE OPTION...: the losses of two ranks may differ from those of one rank by ALLOWED.
follows() {
    local name=$1 allowed=$2 mode=$3 apart
    local train=("$CLTRAIN" train gpt.json "precision.mode=$mode" "${@:4}")
    expect_code 0 "${train[@]}" --out "$name"
    apart=$(values loss "$name/metrics.jsonl" | sed -n '1p;$p' | paste -sd' ' | awk '{ exit !($2 < $1 - 0.05) }' || echo no)
    if [ -z "$apart" ]; then pass; else fail "$name does not learn: $(values loss "$name/metrics.jsonl" | paste -sd' ')"; fi
    mkdir -p "$name.part/checkpoints"
    cp "$name/config.resolved.json" "$name/metrics.jsonl" "$name.part/"
    cp -r "$name/checkpoints/step_7" "$name.part/checkpoints/"
    expect_code 0 "${train[@]}" --out "$name.part" --resume auto
    equal "$name" "$name.part"
    expect_code 0 "${mpi[@]}" 2 "${train[@]}" --out "$name.ranks"
    expect_code 0 "${mpi[@]}" 2 "${train[@]}" --out "$name.again"
    equal "$name.ranks" "$name.again"
    apart=$(paste <(values loss "$name/metrics.jsonl") <(values loss "$name.ranks/metrics.jsonl") | awk -v limit="$allowed" '
        NF != 2 { print "of different length"; exit }
        { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d }
        END { if (NR == 0 || worst > limit) print NR " losses, worst " worst }')
    if [ -z "$apart" ]; then pass; else fail "$name on two ranks: $apart (limit $allowed)"; fi
}

# both NAME OPTION...: in f32 and in half precision; the short run skips f32.
both() {
    follows "$1.f16" 2e-2 f16 "${@:2}" precision.loss_scale=1024
    if all_cases; then follows "$1.f32" 1e-3 f32 "${@:2}"; fi
}

both lars optimizer.type=lars optimizer.learning_rate=1 optimizer.momentum=0.9 optimizer.trust_coefficient=0.01 optimizer.weight_decay=0.01
both lamb optimizer.type=lamb optimizer.learning_rate=0.01 optimizer.eps=1e-6 optimizer.weight_decay=0.1 optimizer.clip=1
both lion optimizer.type=lion optimizer.learning_rate=0.001 optimizer.beta2=0.98 optimizer.weight_decay=0.1 optimizer.clip=1
both muon optimizer.type=muon optimizer.learning_rate=0.01 optimizer.weight_decay=0.1 optimizer.clip=1
both ema optimizer.type=adamw optimizer.learning_rate=0.003 optimizer.ema=0.8

# A saved run is evaluated with its averaged weights, as during training; the unaveraged weights would have another loss.
last=$(values eval_loss ema.f16/metrics.jsonl | tail -n 1)
expect_code 0 "$CLTRAIN" eval ema.f16
expect_text "loss $(printf '%.4f' "$last")"
expect_code 0 "$CLTRAIN" train gpt.json precision.mode=f16 optimizer.learning_rate=0.003 precision.loss_scale=1024 --out plain
expect_same plain/checkpoints/step_14/model.safetensors ema.f16/checkpoints/step_14/model.safetensors
if [ "$(values eval_loss plain/metrics.jsonl | tail -n 1)" = "$last" ]; then fail 'weights and averages have the same loss'; else pass; fi
# For a matrix Muon keeps one moment; for everything else AdamW keeps two.
count_of() { grep -ao "\"[a-z0-9_.]*\.$1\"" muon.f16/checkpoints/step_14/optimizer.safetensors | wc -l; }
if [ "$(count_of moment1)" = 16 ] && [ "$(count_of moment2)" = 12 ]; then pass; else
    fail "moments in the checkpoint: $(count_of moment1) first ones, $(count_of moment2) second ones"
fi

# An export contains the averaged weights or, on request, those of the last step.
expect_code 0 "$CLTRAIN" export ema.f16 --out averaged.safetensors
expect_text 'the weights are the moving averages'
expect_code 0 "$CLTRAIN" export ema.f16 --weights raw --out raw.safetensors
expect_code 0 "$CLTRAIN" export plain --out plain.safetensors
expect_same raw.safetensors plain.safetensors
if cmp -s averaged.safetensors raw.safetensors; then fail 'the averages were not exported'; else pass; fi
expect_code 2 "$CLTRAIN" export ema.f16 --weights mean --out x.safetensors
finish
