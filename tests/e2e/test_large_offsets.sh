#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# Numbers far from 0 keep their digits: (value * data.scale - data.mean) / data.std is computed before the result is rounded to
# f32, for csv, npy of f64, i32 and u16 (converted on the device) and idx, in evaluations and in predictions. The model gives its input.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is computed'; finish; }

# npy FILE DTYPE SAMPLES HEX: an array of (SAMPLES, 1) from its bytes.
npy() {
    local head="{'descr': '$2', 'fortran_order': False, 'shape': ($3, 1), }"
    { printf '\x93NUMPY\x01\x00\x76\x00'; printf '%-117s\n' "$head"; printf "$4"; } >"$1"
}
# 1700000001, 1700000002, 1700000003
npy f64.npy '<f8' 3 '\x00\x00\x40\x40\xfc\x54\xd9\x41\x00\x00\x80\x40\xfc\x54\xd9\x41\x00\x00\xc0\x40\xfc\x54\xd9\x41'
npy i32.npy '<i4' 3 '\x01\xf1\x53\x65\x02\xf1\x53\x65\x03\xf1\x53\x65'
npy u16.npy '<u2' 3 '\x61\xea\x62\xea\x63\xea' # 60001 to 60003
npy y.npy '<f4' 3 '\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40'
{ printf '\x00\x00\x0c\x02\x00\x00\x00\x03\x00\x00\x00\x01'; printf '\x65\x53\xf1\x01\x65\x53\xf1\x02\x65\x53\xf1\x03'; } >i32.idx
printf 'a,y\n1700000001,1\n1700000002,2\n1700000003,3\n' >t.csv
header='{"out.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"out.bias":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
{ printf "\\x$(printf %x ${#header})\x00\x00\x00\x00\x00\x00\x00"; printf '%s\x00\x00\x80\x3f\x00\x00\x00\x00' "$header"; } >id.safetensors

model='"model": {"type": "mlp", "hidden": [], "outputs": 1, "loss": "mse"}, "optimizer": {"type": "sgd", "learning_rate": 1e-9}, "train": {"steps": 1}'
pair() { printf '{%s, "data": {"type": "%s", "path": "%s", "targets": "y.npy", "micro_batch": 4, "mean": 1700000000}}\n' "$model" "$1" "$2"; }
printf '{%s, "data": {"type": "csv", "path": "t.csv", "target": "y", "split": 0, "micro_batch": 4, "mean": 1700000000}}\n' "$model" >csv.json
pair npy f64.npy >f64.json
pair npy i32.npy >i32.json
pair npy u16.npy >u16.json
# loss CONFIG [KEY=VALUE ...]: must be the mean square of 1, 2, 3 from 1, 2, 3
loss() {
    expect_code 0 "$CLTRAIN" eval "$@" --on train --init id.safetensors --json loss.json
    grep -q '"loss": 0,' loss.json && pass || fail "$*: $(grep '"loss"' loss.json | head -1), it should be 0"
}
loss csv.json
loss f64.json
loss i32.json
loss u16.json data.mean=60000
# the difference is small compared with the rounding of x * scale in f32; this also holds for a mean that is
# not a whole number
loss u16.json data.scale=10 data.mean=600000 data.std=10
loss i32.json data.scale=0.001 data.mean=1700000 data.std=0.001

# A run predicts the same numbers.
for kind in csv f64 i32; do
    expect_code 0 "$CLTRAIN" train $kind.json --init id.safetensors --out run-$kind
    input=$kind.npy
    [ $kind = csv ] && input=t.csv
    expect_code 0 "$CLTRAIN" predict run-$kind $input --out $kind.out.csv
    tail -n +2 $kind.out.csv | cut -d, -f2 | awk '{ s += ($1 - NR) ^ 2 } END { exit !(NR == 3 && s < 1e-6) }' && pass ||
        fail "$kind: predictions $(tail -n +2 $kind.out.csv | tr '\n' ' '), they should be 1, 2, 3"
done
expect_code 0 "$CLTRAIN" predict run-f64 i32.idx --out idx.csv
tail -n +2 idx.csv | cut -d, -f2 | awk '{ s += ($1 - NR) ^ 2 } END { exit !(NR == 3 && s < 1e-6) }' && pass || fail "idx: $(cat idx.csv)"
printf '1700000001\n1700000002\n1700000003\n' | "$CLTRAIN" predict run-f64 --input - 2>/dev/null | tail -n +2 | cut -d, -f2 |
    awk '{ s += ($1 - NR) ^ 2 } END { exit !(NR == 3 && s < 1e-6) }' && pass || fail 'lines of the standard input are rounded first'
finish
