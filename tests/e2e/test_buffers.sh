#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# Buffers, tested with batch_norm's running statistics: saved, changed by training, not changed by the optimizer, by recomputation
# or by evaluation, frozen by name, the same after a resume, loaded from other weights, used in evaluation together with averaged
# weights.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cat >net.json <<'JSON'
{"model": {"type": "graph", "layers": [
   {"op": "linear", "name": "fc1", "out": 24, "bias": false}, {"op": "batch_norm", "name": "bn1"}, {"op": "relu", "name": "act1"},
   {"op": "linear", "name": "fc2", "out": 12, "bias": false}, {"op": "batch_norm", "name": "bn2", "affine": false},
   {"op": "linear", "name": "out", "out": 4}, {"op": "cross_entropy", "name": "class", "inputs": ["out", "y"]}]},
 "data": {"type": "synthetic", "samples": 96, "shape": [16], "classes": 4, "micro_batch": 8, "global_batch": 16},
 "optimizer": {"type": "adamw", "learning_rate": 0.01, "clip": 1}, "train": {"steps": 6, "seed": 5, "eval_every": 6}}
JSON
running='bn1\.running_mean bn1\.running_var bn2\.running_mean bn2\.running_var'

# 16*24 + 48 + 24*12 + 12*4 + 4 parameters; the buffers cost their values and nothing more.
expect_code 0 "$CLTRAIN" plan net.json --device generic
expect_text '772 parameters in 6 tensors; 72 values in 4 buffers'
expect_code 0 "$CLTRAIN" plan net.json --device generic 'model.freeze=["*.running_*", "out.bias"]'
expect_text '772 parameters in 6 tensors, 4 of them frozen; 72 values in 4 buffers'
expect_code 0 "$CLTRAIN" estimate net.json --device generic --json
expect_text '"buffer_values": 72' '"parameters": 772'
expect_code 2 "$CLTRAIN" plan net.json --device generic 'model.freeze=["fc*","out.*","bn1.*"]'
expect_text 'all parameters are frozen'
expect_code 2 "$CLTRAIN" plan net.json --device generic data.micro_batch=1
expect_text "layer 'bn1' .batch_norm.: a micro-batch of one sample has no variance"

"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }
for mode in f32 bf16; do
    train=("$CLTRAIN" train net.json precision.mode=$mode)
    expect_code 0 "${train[@]}" --out $mode checkpoint.every=3
    for name in $running; do
        if diff -q <(tensor $mode/checkpoints/step_3/model.safetensors "$name") <(tensor $mode/checkpoints/step_6/model.safetensors "$name") >/dev/null; then
            fail "$mode: $name did not move"
        else
            pass
        fi
        if tensor $mode/checkpoints/step_6/optimizer.safetensors "$name\\.[a-z0-9_.]*" >state.txt; then fail "$mode: $name has optimizer state"; else pass; fi
    done
    # With recomputed forward work, or after a resume from the middle, a run ends with the same bits.
    for tier in gelu block; do
        expect_code 0 "${train[@]}" --out $mode.$tier train.recompute=$tier
        expect_same $mode/checkpoints/step_6/model.safetensors $mode.$tier/checkpoints/step_6/model.safetensors
    done
    expect_code 0 "${train[@]}" --out $mode.half train.steps=3 schedule.horizon=6 train.eval_every=2
    expect_code 0 "$CLTRAIN" train --resume $mode.half train.steps=6
    expect_same $mode/checkpoints/step_6/model.safetensors $mode.half/checkpoints/step_6/model.safetensors
done

# The statistics over the micro-batches of a whole epoch are close to the data's; evaluation uses them, so
# it also works with one sample at a time.
expect_code 0 "$CLTRAIN" eval f32
loss=$(sed -n -E 's/.*loss ([0-9.]+).*/\1/p' "$out" | head -n 1)
expect_code 0 "$CLTRAIN" eval f32 data.micro_batch=1
expect_text "loss $loss"

# Frozen statistics do not change, and the layer uses them: training with them differs from training without.
expect_code 0 "$CLTRAIN" train net.json --init f32 'model.freeze=*.running_*' --out frozen
for name in $running; do
    expect_same <(tensor f32/checkpoints/step_6/model.safetensors "$name") <(tensor frozen/checkpoints/step_6/model.safetensors "$name")
done
expect_code 0 "$CLTRAIN" train net.json --init f32 --out moved
if [ "$(values loss frozen/metrics.jsonl | head -n 1)" = "$(values loss moved/metrics.jsonl | head -n 1)" ]; then fail 'frozen statistics are not used'; else pass; fi

# Averages are kept of trained parameters; the statistics used with them are those of the training.
expect_code 0 "$CLTRAIN" train net.json optimizer.ema=0.5 --out ema
expect_same <(tensor f32/checkpoints/step_6/model.safetensors 'bn1\.running_var') <(tensor ema/checkpoints/step_6/model.safetensors 'bn1\.running_var')
expect_code 0 "$CLTRAIN" eval ema
expect_text "loss $(printf '%.4f' "$(values eval_loss ema/metrics.jsonl | tail -n 1)")"
finish
