#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 20
#
# Half precision from end to end: settings that cannot work, what a run reports, the same dropout masks in each precision,
# generation from a model whose output is stored in 16 bits, a checkpoint that says to which storage type its loss scale belongs,
# weights exported in 16 bits. On a device that emulates matrix units: products of tf32, and the storage type that precision.mode
# auto chooses.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for ((i = 0; i < 300; i++)); do printf 'pack my box with five dozen jugs. '; done >text.txt # its next byte follows from eight

# --- a model over windows of bytes: its logits are stored in 16 bits and read back ---
cat >window.json <<'JSON'
{"model": {"type": "mlp", "embedding": 8, "hidden": [32], "activation": "gelu", "outputs": 256, "loss": "cross_entropy"},
 "data": {"type": "text", "path": "text.txt", "window": 8, "split": 0.1, "micro_batch": 32},
 "optimizer": {"type": "adamw", "learning_rate": 0.01},
 "train": {"steps": 120, "log_every": 20}}
JSON
for bad in precision.mode=fp16 'precision.loss_scale=1e-50 precision.loss_scaling=static' 'precision.loss_scale=0 precision.loss_scaling=static' \
    'precision.loss_scale=1e-24 precision.loss_scaling=static' optimizer.eps=1e-46 precision.growth=1.00000001 \
    precision.backoff=0.99999999999 precision.backoff=1e-60; do
    # shellcheck disable=SC2086 # several overrides
    expect_code 2 "$CLTRAIN" plan window.json precision.mode=f16 $bad
    expect_text "${bad%%=*}"
done
expect_code 2 "$CLTRAIN" plan window.json precision.mode=f32 precision.loss_scaling=dynamic
for bad in precision.loss_scale=128 precision.growth=4; do
    expect_code 2 "$CLTRAIN" plan window.json precision.mode=bf16 $bad
    expect_text "${bad%%=*}.*precision.loss_scaling"
    expect_code 0 "$CLTRAIN" plan window.json precision.mode=bf16 precision.loss_scaling=dynamic $bad
done

"$CLTRAIN" devices >/dev/null 2>&1
if [ $? -eq 4 ]; then
    note_skip 'there is no OpenCL device: nothing is trained'
    finish
fi
for mode in f32 f16 bf16; do
    expect_code 0 "$CLTRAIN" train window.json --out run_$mode precision.mode=$mode
    case $mode in f16) expect_text 'step .*\| scale 65536' ;; *) reject_text '\| scale ' ;; esac
    expect_text "$mode"
    expect_code 0 grep -q "\"storage\": \"$mode\"" run_$mode/checkpoints/step_120/state.json
    expect_code 0 "$CLTRAIN" generate --checkpoint run_$mode --prompt 'pack my ' --max-new 34 --temperature 0
    expect_text '^pack my box with five dozen jugs\. pack my '
done

# --- weights for other programs ---
expect_code 2 "$CLTRAIN" export --checkpoint run_f16
expect_code 2 "$CLTRAIN" export --checkpoint run_f16 --out w --dtype i8
expect_text "--dtype 'i8'"
expect_code 7 "$CLTRAIN" export --checkpoint nowhere --out w
expect_absent w
expect_code 2 "$CLTRAIN" export --checkpoint run_f16 --out run_f16/checkpoints/step_120/w
expect_code 0 "$CLTRAIN" eval window.json --checkpoint run_f16 --json masters.json
for mode in f32 f16 bf16; do
    expect_code 0 "$CLTRAIN" export --checkpoint run_f16 --out $mode.safetensors --dtype $mode
    expect_text "^$mode.safetensors: 5 tensors, 12576 values in $mode, .* from run_f16/checkpoints/step_120$"
    expect_code 0 grep -q -a -E "\"__metadata__\":\{\"format\":\"pt\"\}.*\"dtype\":\"${mode^^}\"" $mode.safetensors
    expect_code 0 "$CLTRAIN" eval window.json --init $mode.safetensors --json $mode.json
    paste <(values loss masters.json | head -n 1) <(values loss $mode.json | head -n 1) >both
    expect_awk "weights in $mode have another loss" \
        "{ d = \$1 - \$2; if (d < 0) d = -d; exit \"$mode\" == \"f32\" ? d != 0 : !(d > 0 && d < 5e-3) }" both
done
expect_same <(tail -c $((12576 * 4)) f32.safetensors) <(tail -c $((12576 * 4)) run_f16/checkpoints/step_120/model.safetensors)
if [ $(($(stat -c %s f16.safetensors) * 2)) -lt $(($(stat -c %s f32.safetensors) + 1024)) ]; then pass; else fail 'f16 does not take half'; fi

# --- casts are inserted before dropout: the numbers of its masks depend on the model's graph without casts ---
cat >graph.json <<'JSON'
{"model": {"type": "graph", "layers": [
   {"op": "linear", "name": "a", "inputs": ["x"], "out": 40}, {"op": "relu"}, {"op": "softmax"}, {"op": "scale", "value": 20},
   {"op": "dropout", "p": 0.5}, {"op": "linear", "out": 5}, {"op": "cross_entropy", "inputs": ["#5", "y"]}]},
 "data": {"type": "synthetic", "samples": 64, "shape": [17], "classes": 5, "micro_batch": 16},
 "optimizer": {"type": "sgd", "learning_rate": 0.001},
 "train": {"steps": 4}}
JSON
sed -i 's/{"op": "linear", "out": 5}/{"op": "linear", "name": "head", "out": 5}/; s/"#5"/"head"/' graph.json
for mode in f32 bf16 f16; do
    expect_code 0 "$CLTRAIN" train graph.json --out graph_$mode precision.mode=$mode
    values loss graph_$mode/metrics.jsonl >loss_$mode
done
expect_code 0 grep -c . loss_f32
for mode in bf16 f16; do
    paste loss_f32 loss_$mode >both
    expect_awk "the losses of $mode are not those of f32 under the same masks" '{ d = $1 - $2; if (d < 0) d = -d; if (!(d < 0.02)) bad = 1 } END { exit bad || !NR }' both
done

# --- matrix units that the device lacks, and emulated ones ---
expect_code 2 env CLTRAIN_EMULATE=mma_f61 "$CLTRAIN" train window.json --dry-run
expect_text 'CLTRAIN_EMULATE.*mma_f16'
expect_code 2 env CLTRAIN_EMULATE=fp64 "$CLTRAIN" train window.json --dry-run
expect_text 'only matrix units can be emulated: mma_f16,'
cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [21], "activation": "relu"},
 "data": {"type": "synthetic", "samples": 96, "shape": [17], "classes": 5, "noise": 1.0, "micro_batch": 12, "global_batch": 24},
 "optimizer": {"type": "sgd", "learning_rate": 0.1},
 "train": {"steps": 12, "fuse": "off"}}
JSON
units=
"$CLTRAIN" devices | grep -q 'mma_' && units=1
tf32=precision.matmul=tf32
expect_code 0 "$CLTRAIN" train net.json --out ieee
reject_text 'tf32'
if [ -z "$units" ]; then
    expect_code 0 "$CLTRAIN" train net.json $tf32 --out without
    expect_text "warning: precision.matmul tf32: device '.*' has no matrix units for tf32 \(mma_tf32\); products of f32 keep all bits" \
        '^precision .*ieee products \(the device has no tf32\)'
    expect_same ieee/checkpoints/step_12/model.safetensors without/checkpoints/step_12/model.safetensors
    expect_code 0 env CLTRAIN_EMULATE=mma_tf32 "$CLTRAIN" plan net.json $tf32 --full
    expect_awk 'products of tf32 are not all made by mma' '/gemm_fwd/ && !/gemm_fwd_mma/ { bad = 1 } /gemm_fwd_mma/ { n++ } END { exit bad || n < 10 }' "$out"
    expect_code 0 env CLTRAIN_EMULATE=mma_tf32 "$CLTRAIN" plan net.json --full
    reject_text 'gemm_fwd_mma'
    expect_code 0 env CLTRAIN_EMULATE=mma_tf32 "$CLTRAIN" train net.json $tf32 --out emulated
    expect_text 'emulates matrix units that it does not have .CLTRAIN_EMULATE.: mma_tf32' '^precision .*, tf32 products'
    paste <(values loss ieee/metrics.jsonl) <(values loss emulated/metrics.jsonl) >both
    expect_awk 'losses with tf32 are not close to those without, or are the same' \
        '{ d = $1 - $2; if (d < 0) d = -d; if (!(d < 2e-3)) bad = 1; if (d > 0) other = 1 } END { exit bad || !other || NR < 12 }' both
else
    note_skip 'the device has matrix units of its own: none are emulated'
fi

# --- precision.mode auto on two devices: the run continues in the other storage type, reports it, and
# starts with a new loss scale ---
export CLTRAIN_GEMM=simple
auto=(net.json precision.mode=auto precision.loss_scale=1024 precision.growth_interval=4)
if [ -z "$units" ]; then
    expect_code 0 env CLTRAIN_EMULATE=mma_f16 "$CLTRAIN" train "${auto[@]}" --out auto --max-steps 6
    expect_text '^precision +f16 storage.*, f32 arithmetic, dynamic loss scale 1024'
    cp -r auto again
    cp -r auto brain
    expect_code 0 "$CLTRAIN" train "${auto[@]}" --out auto --resume auto --max-steps 8
    expect_text 'warning: resuming from .auto/checkpoints/step_6.: it was trained with f16 storage, and precision.mode auto takes f32' \
        '^precision +f32 storage.*, f32 arithmetic$'
    expect_code 0 env CLTRAIN_EMULATE=mma_f16 "$CLTRAIN" train "${auto[@]}" --out auto --resume auto
    expect_text 'trained with f32 storage, and precision.mode auto takes f16' 'dynamic loss scale 1024'
    scales=$(values loss_scale auto/metrics.jsonl | tr '\n' ' ')
    if [ "$scales" = '1024 1024 1024 2048 2048 2048 1 1 1024 1024 1024 2048 ' ]; then pass; else fail "loss scales: $scales"; fi
    values update auto/metrics.jsonl >updates
    expect_awk 'updates are not counted through' '$1 != NR { bad = 1 } END { exit bad || NR != 12 }' updates
    expect_code 0 env CLTRAIN_EMULATE=mma_f16,mma_bf16 "$CLTRAIN" train "${auto[@]}" --out brain --resume auto
    expect_text 'trained with f16 storage, and precision.mode auto takes bf16' '^precision +bf16 storage.*, f32 arithmetic$'
    expect_code 0 env CLTRAIN_EMULATE=mma_f16 "$CLTRAIN" train "${auto[@]}" --out again --resume auto
    reject_text 'was trained with'
    expect_code 0 env CLTRAIN_EMULATE=mma_f16 "$CLTRAIN" train "${auto[@]}" --out whole
    expect_same whole/checkpoints/step_12/model.safetensors again/checkpoints/step_12/model.safetensors
    # A mode that the config names makes it another config.
    expect_code 2 "$CLTRAIN" train net.json precision.mode=f32 --out again --resume auto
    expect_text 'precision.mode'
fi
finish
