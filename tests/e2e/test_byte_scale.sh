#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# data.scale that is left out: inputs of bytes become 0 to 1, with a line at the start, unless data.mean or data.std are in the
# unit of bytes; flags, numbers of other types and indices stay as they are. A run of an older version keeps its scale of 1.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is computed'; finish; }

{ printf '\x00\x00\x08\x02\x00\x00\x00\x02\x00\x00\x00\x02'; printf '\x00\xff\x33\x66'; } >x.idx # (0, 255), (51, 102)
npy() {
    local head="{'descr': '$2', 'fortran_order': False, 'shape': ($3), }"
    { printf '\x93NUMPY\x01\x00\x76\x00'; printf '%-117s\n' "$head"; printf "$4"; } >"$1"
}
npy x.npy '|u1' '2, 2' '\x00\xff\x33\x66'
npy flags.npy '|b1' '2, 2' '\x00\x01\x01\x00'
npy y.npy '<f4' '2, 1' '\x00\x00\x00\x00\x00\x00\x00\x00'
header='{"out.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"out.bias":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}'
while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
{ printf "\\x$(printf %x ${#header})\x00\x00\x00\x00\x00\x00\x00"; printf '%s\x00\x00\x80\x3f\x00\x00\x80\x3f\x00\x00\x00\x00' "$header"; } >sum.safetensors
net mse 'model.hidden=[]' model.outputs=1 data.type=npy data.path=x.npy data.targets=y.npy optimizer.type=sgd optimizer.learning_rate=1e-9 \
    train.steps=1 >c.json
line='inputs are bytes, which become 0 to 1: data.scale is 1/255 unless it is given'
# sums A B [KEY=VALUE ...]: the model adds up the two numbers of each sample; the run's predictions of the raw bytes are A and B.
sums() {
    local a=$1 b=$2
    shift 2
    rm -rf run
    expect_code 0 "$CLTRAIN" train c.json --init sum.safetensors --out run "$@"
    cp "$out" told
    expect_code 0 "$CLTRAIN" predict run ${input:-x.npy} --out p.csv
    reject_text 'inputs are bytes'
    tail -n +2 p.csv | cut -d, -f2 | tr '\n' ' ' | awk -v a="$a" -v b="$b" '{ exit !(($1 - a) ^ 2 + ($2 - b) ^ 2 < 1e-8 * (1 + a * a + b * b)) }' && pass ||
        fail "$*: $(tail -n +2 p.csv | tr '\n' ' '), it should be $a and $b"
}
sums 1 0.6
grep -q "$line" told && pass || fail 'the scale is not told'
{ printf '\x00\x00\x0d\x02\x00\x00\x00\x02\x00\x00\x00\x01'; printf '\x00\x00\x00\x00\x00\x00\x00\x00'; } >y.idx
input=x.idx sums 1 0.6 data.type=idx data.path=x.idx data.targets=y.idx
grep -q "$line" told && pass || fail 'the scale of idx is not told'
sums 0 -0.4 data.mean=0.5
sums 255 153 data.scale=1
grep -q 'inputs are bytes' told && fail 'a scale that is given is told' || pass
sums 2 0.4 data.mean=63.75 data.std=63.75 # the unit of bytes
input=flags.npy sums 1 1 data.path=flags.npy
grep -q 'inputs are bytes' told && fail 'flags are not bytes' || pass

# The same numbers as another type: integers are scaled as the training data was; floats may be scaled already, so the scale is asked for.
npy i.npy '<i4' '2, 2' '\x00\x00\x00\x00\xff\x00\x00\x00\x33\x00\x00\x00\x66\x00\x00\x00'
npy f.npy '<f4' '2, 2' '\x00\x00\x00\x00\x00\x00\x7f\x43\x00\x00\x4c\x42\x00\x00\xcc\x42'
loss() { # NUMBER [KEY=VALUE ...]: of the run, which is (a^2 + b^2) / 2 of its two sums; its one step has moved it by less than 0.1 %
    expect_code 0 "$CLTRAIN" eval run data.eval_targets=y.npy --json e.json "${@:2}"
    sed -n 's/.*"loss": \([0-9.e+-]*\).*/\1/p' e.json | head -n 1 | awk -v want="$1" '{ n++; d = $1 - want } END { exit !(n && d * d < 1e-6 * want * want) }' &&
        pass || fail "$*: $(grep loss e.json)"
}
sums 1 0.6
loss 0.68 data.eval_path=x.npy
loss 0.68 data.eval_path=i.npy
expect_code 2 "$CLTRAIN" eval run data.eval_targets=y.npy data.eval_path=f.npy
expect_text 'inputs are f32, the run was trained with u8, .* give data.scale=0.00392156862745098 if these numbers are 0 to 255, else data.scale=1'
loss 0.68 data.eval_path=f.npy data.scale=0.00392156862745098
loss 44217 data.eval_path=f.npy data.scale=1 # (255^2 + 153^2) / 2
input=f.npy sums 255 153 data.path=f.npy
loss 44217 data.eval_path=i.npy
expect_code 2 "$CLTRAIN" eval run data.eval_targets=y.npy data.eval_path=x.npy
expect_text 'inputs are u8, the run was trained with f32, .* if the training.s numbers were 0 to 1, else data.scale=1'
loss 44217 data.eval_path=x.npy data.scale=1
input=i.npy sums 255 153 data.path=i.npy
loss 44217 data.eval_path=x.npy

# predict takes floats as numbers before the scale. A run on bytes refuses fractions, and warns about zeros
# and ones, which may be bytes that were scaled already.
predicts() { # A B RUN-ARGUMENT...
    expect_code 0 "$CLTRAIN" predict run "${@:3}" --out p.csv
    tail -n +2 p.csv | cut -d, -f2 | tr '\n' ' ' | awk -v a="$1" -v b="$2" '{ exit !(($1 - a) ^ 2 + ($2 - b) ^ 2 < 1e-8 * (1 + a * a + b * b)) }' && pass ||
        fail "$*: $(tail -n +2 p.csv | tr '\n' ' '), it should be $1 and $2"
}
npy ones.npy '<f4' '2, 2' '\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x80\x3f\x00\x00\x80\x3f' # (0, 1), (1, 1)
npy half.npy '<f4' '2, 2' '\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x3f\x00\x00\x80\x3f'
npy bits.npy '|u1' '2, 2' '\x00\x01\x01\x01'
floats='ones.npy: its numbers are floats, all of them 0 or 1, and were multiplied by the run.s data.scale, 0.00392'
sums 1 0.6
predicts 0.00392157 0.00784314 ones.npy
expect_text "$floats"
predicts 0.00392157 0.00784314 bits.npy # the same numbers as bytes: nothing to ask
reject_text 'its numbers are floats'
predicts 1 0.6 f.npy
reject_text 'its numbers are floats'
expect_code 3 "$CLTRAIN" predict run half.npy --out p.csv
expect_text 'trained on inputs of type u8: whole numbers from 0 to 255'
sums 255 153 data.scale=1
predicts 1 2 ones.npy
reject_text 'its numbers are floats'
# Bytes for a run that was trained on floats: as in eval, the scale is asked for.
input=f.npy sums 255 153 data.path=f.npy
expect_code 2 "$CLTRAIN" predict run x.npy --out p.csv
expect_text "predicting 'x.npy': inputs are u8, the run was trained with f32, .* give data.scale=0.00392[0-9]* if the training.s numbers were 0 to 1"
predicts 255 153 x.npy data.scale=1
predicts 1 0.6 x.npy data.scale=0.00392156862745098
predicts 1 1 flags.npy # not bytes
predicts 255 153 i.npy

# A run that was trained without a scale, as older versions did: its config names data.scale 1.
sums 255 153 data.scale=1
expect_code 2 "$CLTRAIN" train c.json --out run --resume auto train.steps=2
expect_text 'the run was trained with data.scale=1, and now it is 0.00392[0-9]*; give data.scale=1'
expect_code 0 "$CLTRAIN" train c.json --out run --resume auto train.steps=2 data.scale=1
expect_code 0 "$CLTRAIN" train --resume run train.steps=3
reject_text 'inputs are bytes'
sums 1 0.6
expect_code 0 "$CLTRAIN" train c.json --out run --resume auto train.steps=2
expect_code 0 "$CLTRAIN" eval run --on train --json e.json
grep -q '"loss": 0.68' e.json && pass || fail "$(grep loss e.json)" # (1 + 0.36) / 2
finish
