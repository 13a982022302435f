#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# class_weights of cross_entropy: training and evaluation divide by the sum of the targets' weights, over all micro-batches; a
# factor common to all weights changes nothing; the keys of the model families reach the losses. test_golden_losses compares with
# PyTorch, tests/comm/test_mpi_volumes.sh with several ranks.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cat >net.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "linear", "out": 16}, {"op": "relu"}, {"op": "linear", "out": 4},
   {"op": "cross_entropy", "class_weights": [0.5, 2, 0, 7], "label_smoothing": 0.1, "ignore_index": 1}]},
 "data": {"type": "synthetic", "samples": 60, "shape": [16], "classes": 4, "micro_batch": 60, "global_batch": 60},
 "optimizer": {"type": "sgd", "learning_rate": 1e-30}, "train": {"steps": 1, "seed": 5}}
JSON
sed 's/\[0.5, 2, 0, 7\]/[1.5, 6, 0, 21]/' net.json >times3.json
sed 's/"class_weights": \[0.5, 2, 0, 7\], //' net.json >without.json
sed 's/\[0.5, 2, 0, 7\]/[3, 3, 3, 3]/' net.json >equal.json

# Mistakes are found without a device.
expect_code 2 "$CLTRAIN" plan net.json --device generic 'model.layers=[{"op":"linear","out":4},{"op":"cross_entropy","class_weights":[1,2]}]'
expect_text '"class_weights" has 2 numbers, but there are 4 classes'
expect_code 2 "$CLTRAIN" plan net.json --device generic 'model.layers=[{"op":"linear","out":4},{"op":"cross_entropy","class_weights":[0,0,0,0]}]'
expect_text 'all are 0, so that no target would count'
expect_code 2 "$CLTRAIN" plan net.json --device generic 'model.layers=[{"op":"linear","out":4},{"op":"cross_entropy","class_weights":[1,2,3,-1]}]'
cat >resnet.json <<'JSON'
{"model": {"type": "resnet", "depth": 18, "width": 4, "stem": "cifar", "classes": 4, "class_weights": [1, 2, 3, 4]},
 "data": {"type": "synthetic", "samples": 60, "shape": [3, 8, 8], "classes": 4, "micro_batch": 4}, "train": {"steps": 1}}
JSON
expect_code 0 "$CLTRAIN" plan resnet.json --device generic
expect_code 2 "$CLTRAIN" plan resnet.json --device generic 'model.class_weights=[1,2]'
expect_text 'model.class_weights: a resnet has 4 classes, but the list has 2 weights'
net mlp 'model.class_weights=[0.5, 2, 0, 7]' model.label_smoothing=0.1 model.ignore_index=1 data.samples=60 'data.shape=[16]' data.classes=4 \
    data.micro_batch=15 data.global_batch=60 optimizer.type=sgd optimizer.learning_rate=1e-30 train.steps=1 train.seed=5 >mlp.json
expect_code 2 "$CLTRAIN" plan mlp.json --device generic 'model.class_weights=[1,2]'
expect_text 'model.class_weights: an mlp has 4 classes, but the list has 2 weights'
expect_code 2 "$CLTRAIN" plan mlp.json --device generic model.loss=mse model.label_smoothing=0 model.ignore_index=-100
expect_text 'model.class_weights: only for model.loss cross_entropy'

"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }
# loss RUN: the loss of the only step, before the update, which changes nothing. evaluated FILE: the loss of
# the training data.
loss() { values loss "$1/metrics.jsonl" | head -n 1; }
evaluated() { sed -n 's/.*"loss": *\([-0-9.e]*\).*/\1/p' "$1" | head -n 1; }
near() { # WHAT A B: equal to 2e-6
    awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d < 2e-6 && d > -2e-6) }' && pass || fail "$1: $2 and $3"
}
for net in net times3 without equal; do
    expect_code 0 "$CLTRAIN" train $net.json --out $net
    expect_code 0 "$CLTRAIN" eval $net --on train --json $net.eval
    near "$net: training and evaluation" "$(loss $net)" "$(evaluated $net.eval)"
done
near 'weights three times as large' "$(loss net)" "$(loss times3)"
near 'equal weights and none' "$(loss without)" "$(loss equal)"
awk -v a="$(loss net)" -v b="$(loss without)" 'BEGIN { d = a - b; exit !(d > 1e-3 || d < -1e-3) }' && pass || fail 'the weights change nothing'
for micro in 15 4; do
    expect_code 0 "$CLTRAIN" train net.json data.micro_batch=$micro --out micro$micro
    near "micro-batches of $micro" "$(loss net)" "$(loss micro$micro)"
    expect_code 0 "$CLTRAIN" eval micro$micro --on train --json micro$micro.eval
    near "micro-batches of $micro, evaluated" "$(loss net)" "$(evaluated micro$micro.eval)"
done
# The mlp family has the key, too.
expect_code 0 "$CLTRAIN" train mlp.json --out mlp
expect_code 0 "$CLTRAIN" eval mlp --on train --json mlp.eval
near 'an mlp: training and evaluation' "$(loss mlp)" "$(evaluated mlp.eval)"
expect_code 0 "$CLTRAIN" train mlp.json --out mlp3 'model.class_weights=[1.5,6,0,21]'
near 'an mlp: weights three times as large' "$(loss mlp)" "$(loss mlp3)"
expect_code 0 "$CLTRAIN" train mlp.json --out mlp1 'model.class_weights=[]'
awk -v a="$(loss mlp)" -v b="$(loss mlp1)" 'BEGIN { d = a - b; exit !(d > 1e-3 || d < -1e-3) }' && pass || fail 'the weights of an mlp change nothing'
# The last micro-batch of an evaluation is not full.
expect_code 0 "$CLTRAIN" eval net --on train data.micro_batch=7 data.global_batch=7 --json rest.eval
near 'a micro-batch that is not full' "$(loss net)" "$(evaluated rest.eval)"
finish
