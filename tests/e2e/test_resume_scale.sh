#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# Resuming a run: another data.scale is refused if it changes the numbers that the model gets, whatever
# their type, also if one of the two configs leaves it to the data (0). A run of an older version, whose
# config has no keys of tables, resumes.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }

npy() {
    local head="{'descr': '$2', 'fortran_order': False, 'shape': ($3), }"
    { printf '\x93NUMPY\x01\x00\x76\x00'; printf '%-117s\n' "$head"; printf "$4"; } >"$1"
}
npy f.npy '<f4' '2, 2' '\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40' # 1 2, 3 4
npy i.npy '<i4' '2, 2' '\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00'
npy b.npy '|u1' '2, 2' '\x01\x02\x03\x04'
npy y.npy '<f4' '2, 1' '\x00\x00\x00\x00\x00\x00\x80\x3f'
net mse 'model.hidden=[]' model.outputs=1 data.type=npy data.path=f.npy data.targets=y.npy optimizer.type=sgd optimizer.learning_rate=1e-3 \
    train.steps=1 >f.json
sed 's/f\.npy/i.npy/' f.json >i.json
sed 's/f\.npy/b.npy/' f.json >b.json
net mlp 'model.hidden=[]' 'data.shape=[3]' data.classes=2 data.samples=8 data.micro_batch=4 train.steps=1 >s.json
printf 'a,b,y\n1,5,10\n2,3,20.5\n3,8,30\n4,1,35\n' >t.csv
net mse 'model.hidden=[]' data.split=0 train.steps=1 >t.json
# kept CONFIG THEN WAS NOW IS: a run that was trained with data.scale THEN does not resume with NOW; the
# message names WAS and IS.
kept() {
    rm -rf run
    expect_code 0 "$CLTRAIN" train "$1" --out run data.scale=$2
    expect_code 2 "$CLTRAIN" train "$1" --out run --resume auto train.steps=2 data.scale=$4
    expect_text "data.scale(=|: was )$3,? .*is $5"
    expect_code 2 "$CLTRAIN" train --resume run train.steps=2 data.scale=$4
    expect_code 0 "$CLTRAIN" train "$1" --out run --resume auto train.steps=2 data.scale=$2
}
kept f.json 0.01 0.01 0 1
kept f.json 0 1 0.01 0.01
kept i.json 0.01 0.01 0 1
kept s.json 0 1 0.5 0.5
kept t.json 0 0 2 2
kept t.json 0 0 1 1 # which would not be standardised
kept b.json 0 0.00392[0-9]* 0.5 0.5
# 0 and 1 are the same, except for bytes and standardised tables.
rm -rf run
expect_code 0 "$CLTRAIN" train f.json --out run
expect_code 0 "$CLTRAIN" train f.json --out run --resume auto train.steps=2 data.scale=1
# The same numbers in other types: bytes were scaled, these types would not be.
rm -rf run
expect_code 0 "$CLTRAIN" train b.json --out run
expect_code 2 "$CLTRAIN" train b.json --out run --resume auto train.steps=2 data.path=i.npy
expect_text 'trained with data.scale=0.00392[0-9]*, and now it is 1;'

# Volumes of floats.
mkdir -p v/images v/masks
npy v/images/a.npy '<f4' '1, 1, 2' '\x00\x00\x80\x3f\x00\x00\x00\x40'
npy v/masks/a.npy '|u1' '1, 1, 2' '\x00\x01'
cat >v.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "conv3d", "out": 2, "kernel": 1}, {"op": "cross_entropy"}]},
 "data": {"type": "nifti", "path": "v", "mask_classes": 2, "micro_batch": 1, "split": 0}, "train": {"steps": 1}}
JSON
kept v.json 0.01 0.01 0 1

# The config of an older program.
for config in f s; do
    rm -rf run
    expect_code 0 "$CLTRAIN" train $config.json --out run
    sed -i '/"fill"\|"standardize"\|"words"\|"data\.fill"\|"data\.standardize"\|"data\.words"\|joined"/d' run/config.resolved.json
    expect_code 0 "$CLTRAIN" train --resume run train.steps=3
    expect_code 0 "$CLTRAIN" train $config.json --out run --resume auto train.steps=4
done
finish
