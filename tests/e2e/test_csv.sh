#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# A csv table from end to end: a classifier and a regression learn from it; class names are kept in the checkpoint, in predictions
# and in an evaluation without the training data; tables with and without their target give the same predictions.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Three groups of points, ordered by class, as many tables are.
awk 'BEGIN { srand(4); print "length,width,height,kind"
    split("setosa,versi color,virginica", kind, ",")
    for (k = 1; k <= 3; k++) for (i = 0; i < 60; i++)
        printf "%.3f,%.3f,%.3f,%s\n", k + rand() * .4, (k == 2) + rand() * .4, -k + rand() * .4, kind[k] }' >flowers.csv
awk -F, 'NR > 1 { printf "%s;%s;%.4f\n", $1, $2, 2 * $1 - $2 }' flowers.csv >numbers.csv
cat >flowers.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16]}, "data": {"type": "csv", "path": "flowers.csv", "target": "kind", "micro_batch": 16},
 "optimizer": {"learning_rate": 0.02}, "train": {"steps": 120}}
JSON
expect_code 0 "$CLTRAIN" data verify flowers.json flowers.csv
expect_text '162 samples of 3 columns .* 3 classes' '18 samples' '180 lines of 4 cells below their names' '3 good, none bad'
expect_code 3 "$CLTRAIN" data verify flowers.json data.target=kin
expect_text "no column 'kin'" "did you mean 'kind'"

"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }
expect_code 0 "$CLTRAIN" train flowers.json --out run
expect_text 'eval at step 120 .* accuracy 100.00% \| 18 samples'
expect_code 0 "$CLTRAIN" predict run flowers.csv --out whole.csv
expect_text '180 samples predicted'
head -1 whole.csv | grep -q '^sample,class,name,probability,p0,p1,p2$' && pass || fail "header: $(head -1 whole.csv)"
right=$(paste -d, <(tail -n +2 flowers.csv | cut -d, -f4) <(tail -n +2 whole.csv | cut -d, -f3) | awk -F, '$1 == $2' | wc -l)
[ "$right" = 180 ] && pass || fail "$right of 180 names are right"
cut -d, -f1-3 flowers.csv >inputs.csv # the same table without its target
expect_code 0 "$CLTRAIN" predict run inputs.csv --out inputs_out.csv
cmp -s whole.csv inputs_out.csv && pass || fail 'a table without its target is predicted otherwise'
expect_code 0 "$CLTRAIN" predict run inputs.csv --format jsonl --top-k 2
expect_text '"class":1,"name":"versi color","probability":'

# Class names need no training data: the checkpoint contains them.
{ head -n 1 flowers.csv; tail -n 40 flowers.csv; } | sed 's/^/  /' >late.csv
mv flowers.csv gone.csv
expect_code 0 "$CLTRAIN" eval run data.eval_path=late.csv
expect_text 'accuracy 100.00% \| 40 samples'
mv gone.csv flowers.csv
expect_code 0 "$CLTRAIN" train --resume run train.steps=130
expect_text 'step 130'

expect_code 0 "$CLTRAIN" train flowers.json data.path=numbers.csv data.target=3 model.loss=mse --out regression
expect_code 0 "$CLTRAIN" predict regression numbers.csv --out y.csv
head -1 y.csv | grep -q '^sample,y$' && pass || fail "header: $(head -1 y.csv)"
# One cell that is not a number must not turn a column of numbers into classes, whose indices a regression
# would learn.
sed '20s/;[^;]*$/;NA/' numbers.csv >hole.csv
expect_code 3 "$CLTRAIN" train flowers.json data.path=hole.csv data.target=3 model.loss=mse --dry-run
expect_text "'hole.csv', line 20, column 3: 'NA' is not a number, and the loss mse needs numbers"
expect_code 0 "$CLTRAIN" train flowers.json data.path=hole.csv data.target=3 --dry-run # a classifier takes words

# Class words are kept however long they are: in a table without the first of them, the others keep their
# numbers.
long() { printf '%06000d' 0 | tr 0 "$1"; }
sed -e "s/setosa/$(long s)/" -e "s/versi color/$(long v)/" -e "s/virginica/$(long w)/" flowers.csv >long.csv
expect_code 0 "$CLTRAIN" train flowers.json data.path=long.csv --out long
{ head -n 1 long.csv; tail -n 120 long.csv; } >later.csv
expect_code 0 "$CLTRAIN" eval long data.eval_path=later.csv
expect_text 'accuracy 100.00% \| 120 samples'
mv long.csv gone.csv
expect_code 0 "$CLTRAIN" eval long data.path=later.csv data.eval_path=later.csv
expect_text 'accuracy 100.00% \| 120 samples'
expect_code 0 "$CLTRAIN" predict long inputs.csv --out named.csv
[ "$(tail -n 1 named.csv | cut -d, -f3)" = "$(long w)" ] && pass || fail 'the long name of a class is not kept'
# Words that JSON cannot hold are refused before the training, with line and byte.
sed "s/versi color/f\xfcr/" flowers.csv >latin.csv
expect_code 3 "$CLTRAIN" train flowers.json data.path=latin.csv --out latin
expect_text "line 62, column 'kind': the class word 'f.r' has the byte 0xfc at place 2 \(byte [0-9]+ of the file\), which is not UTF-8"
expect_absent latin

expect_code 2 "$CLTRAIN" train flowers.json data.type=idx
expect_text 'data.target: only for data.type csv'
# --- a single column is written as "1 column" ---
printf 'a,y\n1,2\n2,4\n3,6\n4,8\n' >one.csv
printf '%s' '{"model":{"type":"mlp","hidden":[2],"outputs":1,"loss":"mse"},"data":{"type":"csv","path":"one.csv","target":"y","split":0,"micro_batch":1}}' >one.json
expect_code 0 "$CLTRAIN" train one.json --dry-run train.steps=1
expect_text 'csv: 4 samples of 1 column from'

# --- a yes or no: the classes have names; the rows that data.split keeps are predicted and evaluated, and
# FILE replaces them ---
for i in $(seq 60); do echo "$((i % 7)),$((i % 5)),$([ $((i % 2)) = 0 ] && echo yes || echo no)"; done | sed '1i a,b,ok' >ok.csv
printf '%s' '{"model":{"type":"mlp","hidden":[8],"outputs":1,"loss":"bce_with_logits"},"train":{"steps":6},
"data":{"type":"csv","path":"ok.csv","target":"ok","split":0.2,"micro_batch":8}}' >ok.json
expect_code 0 "$CLTRAIN" train ok.json --out ok
expect_code 0 "$CLTRAIN" predict ok ok.csv --out all.csv
expect_code 0 grep -x 'sample,class,name,probability' all.csv
expect_awk 'the name is that of the class' 'BEGIN { FS = "," } NR > 1 && $3 != ($2 ? "yes" : "no") { exit 1 }' all.csv
expect_code 0 "$CLTRAIN" predict ok ok.csv --out all.jsonl
expect_code 0 grep -q -E '"yes":\[0?\],"name":"(yes|no)","probabilities"' all.jsonl
expect_code 0 "$CLTRAIN" predict ok --out held.csv
expect_text 'input: the rows of ok.csv that data.split keeps for evaluation' '12 samples predicted'
reject_text 'has other content'
expect_code 0 grep -x 'sample,line,class,name,probability' held.csv
# the same row of the whole table has the same prediction
expect_awk 'each line is where the row stands' 'BEGIN { FS = "," } NR == FNR { p[$1 + 2] = $4; next } FNR > 1 && p[$2] != $5 { exit 1 }' all.csv held.csv
expect_code 0 "$CLTRAIN" eval ok
expect_text '12 samples'
expect_code 0 "$CLTRAIN" eval ok ok.csv
expect_text '60 samples'
# of a table that has grown, data.split keeps other rows, some of which were trained on
cp ok.csv as_it_was.csv
printf '1,2,yes\n2,3,no\n' >>ok.csv
expect_code 0 "$CLTRAIN" predict ok --out held.csv
expect_text "warning: 'ok.csv' has other content than when the run was saved, so the rows that data.split keeps are others"
expect_code 0 "$CLTRAIN" predict ok ok.csv --out held.csv
reject_text 'has other content'
cp as_it_was.csv ok.csv
expect_code 2 "$CLTRAIN" eval ok nothing.csv
expect_text "'nothing.csv': there is no such file; an argument after the run or config names evaluation data .data.eval_path=FILE"
expect_code 2 "$CLTRAIN" eval ok ok.csv data.eval_path=ok.csv
expect_text 'remove data.eval_path'

finish
