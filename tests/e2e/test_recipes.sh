#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 30
# ctest-optimise: no
#
# What recipes for images need of a training: which parameters decay, learning rates that follow the batch, metrics of classes, the best
# checkpoint by a metric, an early end, and a micro-batch that is found.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cat >net.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "linear", "out": 16}, {"op": "layernorm"}, {"op": "relu"},
    {"op": "linear", "out": 4}, {"op": "cross_entropy"}]},
 "data": {"type": "synthetic", "shape": [8], "classes": 4, "samples": 256, "micro_batch": 16, "global_batch": 64, "noise": 1.5},
 "optimizer": {"type": "sgd", "learning_rate": 0.1, "weight_decay": 0.25}, "schedule": {"type": "cosine", "min_learning_rate": 0.01},
 "train": {"steps": 8}}
JSON
rates() { grep -o '"lr":[0-9.e-]*' "$1/metrics.jsonl"; }

# Decay: 8*16 + 16*4 weights of layers; the norm's 2*16 and the 16 + 4 biases only if all decay.
expect_code 0 "$CLTRAIN" plan net.json --device generic
expect_text '192 of 244 trained parameters in 2 of 6 tensors decay by 0.25' 'norms and biases do not'
expect_code 0 "$CLTRAIN" plan net.json --device generic optimizer.decay=all
expect_text '244 of 244 trained parameters in 6 of 6 tensors decay by 0.25'
expect_code 0 "$CLTRAIN" plan net.json --device generic 'model.freeze=linear1.*'
expect_text '64 of 100 trained parameters in 1 of 4 tensors decay'
expect_code 0 "$CLTRAIN" estimate net.json --device generic --json optimizer.base_batch=256
expect_text '"decaying_parameters": 192' '"peak_learning_rate": 0.025'
expect_code 0 "$CLTRAIN" plan net.json --device generic optimizer.weight_decay=0
expect_text 'decay +none'

# Linear scaling: it is as if the rates were written as multiplied, for the floor of the schedule too, and for every rank count.
expect_code 0 "$CLTRAIN" plan net.json --device generic optimizer.base_batch=32 --ranks 4
expect_text 'learning rate 0.1 x 64/32 = 0.2'
expect_code 0 "$CLTRAIN" plan net.json --device generic optimizer.base_batch=32 data.global_batch=0 --ranks 4
expect_text 'learning rate 0.1 x 64/32 = 0.2'

"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }
expect_code 0 "$CLTRAIN" train net.json optimizer.base_batch=32 --out scaled
expect_text 'learning rate 0.1 x 64/32 = 0.2'
expect_code 0 "$CLTRAIN" train net.json optimizer.learning_rate=0.2 schedule.min_learning_rate=0.02 --out plain
expect_same <(rates scaled) <(rates plain)
expect_same scaled/checkpoints/step_8/model.safetensors plain/checkpoints/step_8/model.safetensors
if grep -q '"event":"start".*"peak_lr":0.2,"lr_factor":2' scaled/metrics.jsonl; then pass; else fail 'the start does not record the learning rate'; fi
expect_code 0 "$CLTRAIN" train net.json optimizer.base_batch=32 --max-steps 5 --out half
expect_code 0 "$CLTRAIN" train --resume half
expect_same scaled/checkpoints/step_8/model.safetensors half/checkpoints/step_8/model.safetensors
expect_code 2 "$CLTRAIN" train --resume half optimizer.base_batch=16 train.steps=9
expect_text 'optimizer.base_batch: was 32, is 16'
finish
