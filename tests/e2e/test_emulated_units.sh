#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# A GPT trained as a GPU with matrix units would train it, on a device that emulates them: products and attention, forward and
# backward, by the kernels for each generation of units. Losses stay close to those of the device's own kernels in the same type,
# and recomputation changes no bit. Compiling these kernels for a CPU takes minutes, so the test is not quick.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset CLTRAIN_GEMM
"$CLTRAIN" devices >/dev/null 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device: nothing is trained'
! "$CLTRAIN" devices | grep -q 'mma_' || skip_all 'the device has matrix units of its own: none are emulated'
awk 'BEGIN { for (i = 0; i < 400; i++) printf "line %d says %d and %d\n", i, i * i % 97, i * 7 % 31 }' >text
cat >gpt.json <<'JSON'
{"model": {"type": "gpt", "layers": 2, "heads": 2, "channels": 24, "context": 19, "dropout": 0.1},
 "data": {"type": "text", "path": "text", "micro_batch": 3, "global_batch": 6},
 "optimizer": {"type": "adamw", "learning_rate": 0.002, "clip": 1},
 "precision": {"mode": "auto"}, "train": {"steps": 12}}
JSON
declare -A scale=([bf16]='' [f16]=precision.loss_scale=1024) # bf16 has none unless it is asked for; f16's first one would skip steps
for mode in bf16 f16; do
    # shellcheck disable=SC2086
    expect_code 0 "$CLTRAIN" train gpt.json precision.mode=$mode ${scale[$mode]} --out $mode
done
for units in mma_bf16 mma_f16 mma_f16_k8 wmma_f16; do
    case $units in mma_bf16) mode=bf16 ;; *) mode=f16 ;; esac
    expect_code 0 env CLTRAIN_EMULATE=$units "$CLTRAIN" plan gpt.json --full
    expect_awk "with $units some product is not made by mma" '/gemm_fwd/ && !/gemm_fwd_mma/ { bad = 1 } /gemm_fwd_mma/ { n++ } END { exit bad || n < 20 }' "$out"
    case $units in mma_bf16 | mma_f16) expect_text 'attention_fwd_mma' 'attention_bwd_q_mma' 'attention_bwd_kv_mma' ;; esac
    # shellcheck disable=SC2086
    expect_code 0 env CLTRAIN_EMULATE=$units "$CLTRAIN" train gpt.json ${scale[$mode]} --out $units
    expect_text "^precision +$mode storage"
    paste <(values loss $mode/metrics.jsonl) <(values loss $units/metrics.jsonl) >both
    expect_awk "losses with $units are far from those of the device's own kernels" \
        '{ d = $1 - $2; if (d < 0) d = -d; if (!(d < 5e-3)) bad = 1 } END { exit bad || NR < 12 }' both
done
expect_code 0 env CLTRAIN_EMULATE=mma_bf16 "$CLTRAIN" train gpt.json train.recompute=block --out block
expect_same mma_bf16/checkpoints/step_12/model.safetensors block/checkpoints/step_12/model.safetensors
finish
