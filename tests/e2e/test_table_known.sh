#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# What a run keeps from its table, by command: resuming and evaluating use inputs and targets as the
# training did. A run that starts with its weights uses only the inputs, and only if its config names the
# same columns and target. What is kept cannot be overridden.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }

# value FILE KEY: the number of a JSON member, the first of that name
value() { tr ',{' '\n\n' <"$1" | sed -n "s/^ *\"$2\": *\([-0-9.e+]*\).*/\1/p" | head -n 1; }
same() { # NAME A B: within 1e-5 of each other
    awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && b != "" && d <= 1e-5 * (1 + (b < 0 ? -b : b))) }' && pass ||
        fail "$1: $2, it should be $3"
}

# --- classes: an evaluation table without one of them ---
{ echo 'x,y'; for i in 1 2 3 4; do printf '%d,a\n%d,b\n%d,c\n' "$i" $((i + 10)) $((i + 20)); done; } >abc.csv
printf 'x,y\n1,a\n2,a\n21,c\n22,c\n' >ac.csv
cat >c.json <<'JSON'
{"model": {"type": "mlp", "hidden": []}, "data": {"type": "csv", "path": "abc.csv", "eval_path": "ac.csv", "micro_batch": 4},
 "optimizer": {"type": "sgd", "learning_rate": 0.2}, "train": {"steps": 60, "log_every": 60}}
JSON
expect_code 0 "$CLTRAIN" train c.json --out classes
expect_code 0 "$CLTRAIN" eval classes --json e.json
# A step of size 0: the evaluation after it must equal eval's.
expect_code 0 "$CLTRAIN" train --resume classes train.steps=61
expect_code 0 "$CLTRAIN" eval classes --json after.json
resumed=$(grep '"eval_loss"' classes/metrics.jsonl | tail -n 1 >last; value last eval_loss)
same 'the evaluation of a resumed run' "$resumed" "$(value after.json loss)"
mv abc.csv away.csv # the names are kept
expect_code 0 "$CLTRAIN" eval classes --json gone.json
same 'without the training table' "$(value gone.json loss)" "$(value after.json loss)"
mv away.csv abc.csv
printf 'x,y\n1,a\n2,d\n' >ad.csv
expect_code 3 "$CLTRAIN" eval classes data.eval_path=ad.csv
expect_text "line 3, column 'y': 'd' is not one of the classes"

# --- integers for the evaluation of a regression that was trained on others, and is not standardised ---
printf 'x,y\n1,1.5\n2,2.5\n3,3.5\n4,5\n' >half.csv
printf 'x,y\n1,2\n2,3\n' >whole.csv
net mse 'model.hidden=[]' data.path=half.csv data.eval_path=whole.csv data.standardize=false optimizer.type=sgd optimizer.learning_rate=1e-9 \
    train.steps=1 >r.json
expect_code 0 "$CLTRAIN" train r.json --out raw
expect_code 0 "$CLTRAIN" train --resume raw train.steps=2
mv half.csv away.csv
expect_code 0 "$CLTRAIN" eval raw
mv away.csv half.csv

# --- beginning with weights: the config's own target and columns ---
printf 'a,b,y,z\n1,5,10,1000\n2,3,20,3000\n3,8,30,2000\n4,4,40,6000\n' >t.csv
net mse 'model.hidden=[]' data.target=y 'data.columns=["a", "b"]' data.split=0 optimizer.type=sgd optimizer.learning_rate=1e-12 train.steps=1 \
    >t.json
facts() { cat "$1"/checkpoints/step_*/data.json | tr -d ' \n'; }
expect_code 0 "$CLTRAIN" train t.json --out run
facts run | grep -q '"target":{"name":"y","number":3,"mean":25,' && pass || fail "$(facts run)"
expect_code 0 "$CLTRAIN" train t.json --init run --out z data.target=z
expect_text "has other columns than the table that the weights were trained on, or data.columns and data.target name others"
facts z | grep -q '"target":{"name":"z","number":4,"mean":3000,' && pass || fail "$(facts z)"
expect_code 0 "$CLTRAIN" train t.json --init run --out za 'data.columns=["a", "z"]'
facts za | grep -q '"columns":\[{"name":"a",[^]]*{"name":"z",' && pass || fail "$(facts za)"
# The same columns: inputs as the weights know them, the target's mean and deviation from the new training part.
printf 'b,a,y\n1,2,100\n2,4,200\n' >new.csv
expect_code 0 "$CLTRAIN" train t.json --init run --out new data.path=new.csv
expect_text "'new.csv' is standardised as the table that the weights were trained on"
facts new | grep -q '"target":{"name":"y","number":3,"mean":150,"std":50}' && pass || fail "$(facts new)"
facts new | grep -q '"columns":\[{"name":"a","number":1,"fill":2.5,"mean":2.5,' && pass || fail "$(facts new)"
# Evaluating with its weights takes the target's unit, too.
expect_code 0 "$CLTRAIN" eval t.json --init run --on train --json e.json data.path=new.csv
expect_code 0 "$CLTRAIN" eval run --on train --json own.json data.path=new.csv
same 'eval --init' "$(value e.json mae)" "$(value own.json mae)"

# --- training and evaluation data are read in the same way: the evaluation table lacks a column of the
# training table of the weights ---
printf 'a,b,c,y\n1,5,1,10\n2,3,7,20\n3,8,2,30\n4,4,4,40\n' >abc3.csv
printf 'a,c,y\n10,2,15\n30,6,25\n50,1,35\n' >tune.csv
printf 'a,b,c,y\n1,5,1,12\n3,3,7,21\n' >tune_eval.csv
net mse 'model.hidden=[]' data.path=t2.csv 'data.columns=["a", "c"]' data.split=0 optimizer.type=sgd optimizer.learning_rate=1e-12 train.steps=1 \
    >n.json
expect_code 0 "$CLTRAIN" train n.json --out two data.path=abc3.csv data.target=b
printf 'a,b,c,y\n10,1,2,15\n30,2,6,25\n50,3,1,35\n' >named.csv
expect_code 0 "$CLTRAIN" train n.json --init two --out tuned data.path=tune.csv data.eval_path=tune_eval.csv data.target=y
[ "$(grep -c 'has other columns' "$out")" = 1 ] && pass || fail 'the choice is not made once'
trained=$(grep '"eval_loss"' tuned/metrics.jsonl | tail -n 1 >last; value last eval_loss)
expect_code 0 "$CLTRAIN" eval tuned --json e.json
same 'the evaluation of a training that begins with weights' "$trained" "$(value e.json loss)"

# --- a dry run plans the same as the training ---
printf 'k,y\nred,1\nblue,2\ngreen,4\n' >kinds.csv
printf 'k,y\nred,1\nblue,2\n' >fewer.csv
sed 's/"columns": \["a", "b"\], //; s/t\.csv/kinds.csv/' t.json >k.json
expect_code 0 "$CLTRAIN" train k.json --out kinds
expect_code 0 "$CLTRAIN" train k.json --init kinds data.path=fewer.csv --dry-run
expect_text '\(3 inputs'
cp kinds.csv kept.csv
cp fewer.csv kinds.csv
expect_code 0 "$CLTRAIN" train k.json --out kinds --resume auto --dry-run
expect_text '\(3 inputs'
expect_code 0 "$CLTRAIN" train --resume kinds --dry-run train.steps=2
expect_text '\(3 inputs'
cp kept.csv kinds.csv

# --- the value for blank cells comes with the weights: a config that asks for another one gets a
# message ---
printf 'k,v,y\nred,1,1\nblue,,2\nred,4,4\nblue,10,3\n' >blanks.csv
sed 's/"columns": \["a", "b"\], //; s/t\.csv/blanks.csv/' t.json >b.json
expect_code 0 "$CLTRAIN" train b.json --out blanks data.fill=median # of 1, 4 and 10; their mean is 5
for fill in mean 7 refuse; do
    expect_code 0 "$CLTRAIN" train b.json --init blanks --dry-run data.fill=$fill
    [ "$(grep -c '^warning: ' "$out")" = 1 ] && pass || fail 'not one warning'
    if [ $fill = refuse ]; then column="'k' counts as a word"; else column="'v' counts as 4"; fi
    expect_text "data.fill=$fill is not used, .*: a blank cell of column $column\$"
done
for fill in median 4; do
    expect_code 0 "$CLTRAIN" train b.json --init blanks --dry-run data.fill=$fill
    reject_text 'is not used'
done
expect_code 0 "$CLTRAIN" train b.json --init blanks --dry-run data.fill=mean data.standardize=false # the table is learned anew
reject_text 'is not used'
grep -v ,, blanks.csv >whole.csv
expect_code 0 "$CLTRAIN" train b.json --out refusing data.path=whole.csv data.fill=refuse
expect_code 0 "$CLTRAIN" train b.json --init refusing --dry-run data.path=whole.csv
expect_text "data.fill=mean is not used, .*column 'k' is refused\$"

# --- another program's data.json beside a file of weights; ours beside a copy ---
mkdir loose
cp run/checkpoints/step_*/model.safetensors loose/
for text in '{"name": "something else"}' '{"format": 3}' '[1, 2]' 'no JSON'; do
    printf '%s\n' "$text" >loose/data.json
    expect_code 0 "$CLTRAIN" train t.json --init loose/model.safetensors --dry-run
    reject_text 'is standardised as'
done
cp run/checkpoints/step_*/data.json loose/
expect_code 0 "$CLTRAIN" train t.json --init loose/model.safetensors --dry-run
expect_text 'is standardised as the table'
sed -i 's/"width"/"with"/' loose/data.json
expect_code 7 "$CLTRAIN" train t.json --init loose/model.safetensors --dry-run
expect_text "'loose/data.json'.*width"

# --- what a run has kept cannot be overridden ---
for word in data.target=z data.standardize=false data.scale=2 data.scale=1 'data.columns=["a"]' 'data.words=["a"]' data.fill=0 data.mean=1 data.std=2; do
    expect_code 2 "$CLTRAIN" eval run --on train "$word"
    expect_text "these keys were fixed when the run read its table; start a new run" "${word%%=*}: was"
    expect_code 2 "$CLTRAIN" predict run t.csv --out p.csv "$word"
    expect_text 'these keys were fixed when the run read its table'
done
expect_code 2 "$CLTRAIN" eval classes 'data.class_names=["c", "b", "a"]'
for word in data.target=y data.standardize=true data.scale=0 data.fill=mean data.header=yes; do
    expect_code 0 "$CLTRAIN" eval run --on train "$word"
done
finish
