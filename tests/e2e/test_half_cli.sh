#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# Half precision from end to end: the settings that cannot work, what a run says, the same dropout masks in each precision, samples of a
# model whose output is stored in 16 bits, and a checkpoint that says which storage its loss scale belongs to.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for ((i = 0; i < 300; i++)); do printf 'pack my box with five dozen jugs. '; done >text.txt # its next byte follows from eight

# --- a model over windows of bytes: its scores are read back as they are stored ---
cat >window.json <<'JSON'
{"model": {"type": "mlp", "embedding": 8, "hidden": [32], "activation": "gelu", "outputs": 256, "loss": "cross_entropy"},
 "data": {"type": "text", "path": "text.txt", "window": 8, "split": 0.1, "micro_batch": 32},
 "optimizer": {"type": "adamw", "learning_rate": 0.01},
 "train": {"steps": 120, "log_every": 20}}
JSON
for bad in precision.mode=fp16 'precision.loss_scale=1e-50 precision.loss_scaling=static' 'precision.loss_scale=0 precision.loss_scaling=static' \
    precision.growth=1.00000001 precision.backoff=0.99999999999 precision.backoff=1e-60; do
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

# --- casts are inserted before the dropout: its masks are keyed by the model's graph, not by the one with casts ---
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
finish
