#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# --init-skip: a residual network goes on from the weights of one with another number of classes, or of a
# backbone alone; the named parameters keep their random values, all others come from the file, and nothing
# is skipped that was not named.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

net() { # CLASSES
    cat <<JSON
{"model": {"type": "resnet", "depth": 18, "classes": $1, "width": 4, "stem": "cifar"},
 "data": {"type": "synthetic", "samples": 32, "shape": [3, 8, 8], "classes": $1, "micro_batch": 8},
 "optimizer": {"type": "sgd", "learning_rate": 0.01}, "train": {"steps": 1, "seed": 5}}
JSON
}
net 12 >twelve.json
net 5 >five.json

# Mistakes that need no device.
expect_code 2 "$CLTRAIN" train five.json --init-skip 'fc.*'
expect_text 'there is no --init'
expect_code 2 "$CLTRAIN" launch five.json --init-skip 'fc.*'
expect_text 'there is no --init'
expect_code 2 "$CLTRAIN" train five.json --init twelve.safetensors --init-skip ''
expect_text 'the pattern is empty'
expect_code 2 "$CLTRAIN" train --resume absent --init-skip 'fc.*'
expect_text "resumes with the run's own weights; --init-skip does not go together with it"

"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }
expect_code 0 "$CLTRAIN" train twelve.json --out twelve
expect_code 0 "$CLTRAIN" export twelve --out twelve.safetensors

# Parameters are never skipped unasked; the message shows what would help.
expect_code 7 "$CLTRAIN" train five.json --init twelve.safetensors --dry-run
expect_text 'fc.weight is \[12,32\], the model needs \[5,32\]'
expect_text "random values there: --init-skip 'fc.\*'"
expect_code 7 "$CLTRAIN" eval five.json --init twelve.safetensors
reject_text 'init-skip'
expect_code 2 "$CLTRAIN" train five.json --init twelve.safetensors --init-skip 'fcc.*' --dry-run
expect_text "no parameter is called 'fcc.\*'"
long=$(printf '%199s' '' | tr ' ' x)
expect_code 2 "$CLTRAIN" train five.json --init twelve.safetensors --init-skip "fc.*,$long" --dry-run
expect_text "no parameter is called '$long'"
expect_code 2 "$CLTRAIN" train five.json --init twelve.safetensors --init-skip "fc.*, ${long}y, conv1.*" --dry-run
expect_text "begins with 'xxxxxxxxxx.* has 200 characters, up to 199"
expect_code 2 "$CLTRAIN" train five.json --init twelve.safetensors --init-skip 'fc.*,*' --dry-run
expect_text 'names all 102 parameters'
expect_code 7 "$CLTRAIN" train five.json --init twelve.safetensors --init-skip 'fc.bias' --dry-run
expect_text 'fc.weight is \[12,32\]'
reject_text 'fc.bias is'
expect_code 0 "$CLTRAIN" train five.json --init twelve.safetensors --init-skip 'fc.*' --dry-run
expect_text 'new parameters   fc.weight, fc.bias'

# With a learning rate of almost 0 the parameters stay: the backbone is the file's, the head is what a run
# without a file draws.
still="optimizer.learning_rate=1e-30"
for from in twelve.safetensors twelve; do
    rm -rf five
    expect_code 0 "$CLTRAIN" train five.json $still --init $from --init-skip 'fc.*' --out five
    expect_text "weights          100 tensors from $from"
    expect_text 'new parameters   fc.weight, fc.bias'
    expect_same <(tensor twelve.safetensors layer3.0.conv2.weight) <(tensor five/checkpoints/step_1/model.safetensors layer3.0.conv2.weight)
    expect_same <(tensor twelve.safetensors conv1.weight) <(tensor five/checkpoints/step_1/model.safetensors conv1.weight)
done
expect_code 0 "$CLTRAIN" train five.json $still --out drawn
for name in fc.weight fc.bias; do
    expect_same <(tensor drawn/checkpoints/step_1/model.safetensors $name) <(tensor five/checkpoints/step_1/model.safetensors $name)
done
expect_awk 'no record of new parameters' '/"init": *{[^}]*"new_parameters": *2/ { found = 1 } END { exit !found }' five/metrics.jsonl
expect_awk 'no record of new parameters' '/"new_parameters": 2/ { found = 1 } END { exit !found }' five/checkpoints/step_1/state.json
cp five/checkpoints/step_1/model.safetensors five.safetensors
expect_code 0 "$CLTRAIN" train --resume five $still train.steps=2
reject_text 'new parameters'

# The head has another name in the file: one tensor is missing for the model, and one is left over.
LC_ALL=C sed -e 's/"fc\.weight"/"zz.weight"/; s/"fc\.bias"/"zz.bias"/' twelve.safetensors >other.safetensors
expect_code 7 "$CLTRAIN" train five.json --init other.safetensors --dry-run
expect_text 'fc.weight is missing' 'zz.weight .12,32.: the model has no such parameter' "there: --init-skip 'fc.\*,zz.\*'"
expect_code 0 "$CLTRAIN" train five.json --init other.safetensors --init-skip 'fc.*' --dry-run
expect_text "^warning: 'other.safetensors' holds 2 tensors that the model does not use: zz.weight, zz.bias"
expect_code 0 "$CLTRAIN" train five.json $still --init other.safetensors --init-skip 'fc.*,zz.*' --out other
expect_same five.safetensors other/checkpoints/step_1/model.safetensors

# A head that would fit, initialised at random.
rm -rf same
expect_code 0 "$CLTRAIN" train twelve.json $still train.seed=9 --init twelve --init-skip fc.weight --out same
expect_same <(tensor twelve.safetensors fc.bias) <(tensor same/checkpoints/step_1/model.safetensors fc.bias)
if diff -q <(tensor twelve.safetensors fc.weight) <(tensor same/checkpoints/step_1/model.safetensors fc.weight) >/dev/null; then
    fail 'fc.weight was taken from the file'
else
    pass
fi
finish
