#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# A regression on a table of numbers, words and blank cells: inputs and target are standardised by the training part, predictions
# and MAE, RMSE and R2 are in the table's unit, and every command finds columns by name. The figures were made with numpy and
# scikit-learn 1.9.1 (StandardScaler, mean_absolute_error, mean_squared_error, r2_score) for the same weights.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cat >t.csv <<'CSV'
a,kind,y
1.5,red,110
2.5,blue,90.5
,red,120.25
4,,131
0.25,blue,85
3,red,140
2,blue,99
5.5,red,170.5
CSV
cat >e.csv <<'CSV'
note,y,kind,a
one,101,blue,3.5
two,133,red,
three,88.5,green,1
four,190,,6
five,95,blue,2.25
CSV
net mse 'model.hidden=[]' data.target=y data.split=0 data.micro_batch=3 optimizer.type=sgd optimizer.learning_rate=1e-12 train.steps=1 >c.json

# Refused tables, each with its line.
refused() { # text of the table, words of the message, keys
    printf "$1" >bad.csv
    expect_code 3 "$CLTRAIN" train c.json data.path=bad.csv --dry-run "${@:3}"
    expect_text "$2"
}
refused 'a,kind,y\n1,x,2\n2,3,4\n' "line 2, column 'kind': 'x' is not a number, as other cells of the column are; .*data.fill.*data.words"
refused 'a,kind,y\n1,x,2\nnan,x,4\n' "line 3, column 'a': 'nan' is not finite"
refused 'a,kind,y\n1,x,2\ninf,x,4\n' "line 3, column 'a': 'inf' is not finite"
# A column of only nan, inf and blank cells is not a column of words, and a number that is too large for f32
# is reported as such.
refused 'a,kind,y\nnan,x,2\n,x,3\ninf,x,4\n' "line 2, column 'a': 'nan' is not finite"
refused 'a,kind,y\n1e300,x,2\n2e300,x,4\n' "line 2, column 'a': '1e300' is too large for f32"
refused 'a,kind,y\n1,x,2\n,x,4\n' "line 3, column 'a': '' is blank; .* data.fill" data.fill=refuse
refused 'a,kind,y\n1,x,2\n2,,4\n' "line 3, column 'kind': '' is blank" data.fill=refuse
refused 'a,kind,y\n,x,2\n,x,4\n' "column 'a': all of its cells are blank; drop it"
refused "a,kind,y\\n1,x,2\\n2,f\\xfcr,4\\n" "line 3, column 'kind': the word 'f.r' has the byte 0xfc"
expect_code 2 "$CLTRAIN" train c.json data.fill=middle --dry-run
expect_text "data.fill: 'middle' is not valid; valid: mean, median, refuse, or a number"
awk 'BEGIN { print "a,name,y"; for (i = 1; i <= 1100; i++) printf "%d,person %d,%d\n", i, i, 2 * i }' >names.csv
expect_code 3 "$CLTRAIN" train c.json data.path=names.csv --dry-run
expect_text "column 'name' holds 1,?100 different words" 'drop the column \(data.drop_columns\)'
# A config that an older version printed standardises and fills nothing.
"$CLTRAIN" config --print c.json >printed.json
grep -v '"standardize"\|"fill"\|"data.fill"\|"data.standardize"' printed.json | sed '/"data.words"/d; /"words"/d' >older.json
grep -q '"_origin"' older.json || sed -i '$ s/}$/,"_origin": {}}/' older.json
"$CLTRAIN" config --print older.json >again.json
grep -q '"standardize": false' again.json && grep -q '"fill": "refuse"' again.json && pass || fail "$(grep 'standardize\|fill' again.json)"

"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }
# y = 0.7 a + 0.2 (blank) - 0.4 blue + 0.3 red + 0.05, all standardised
header='{"out.weight":{"dtype":"F32","shape":[1,4],"data_offsets":[0,16]},"out.bias":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}}'
while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
{ printf "\\x$(printf %x ${#header})\x00\x00\x00\x00\x00\x00\x00"; printf '%s\x33\x33\x33\x3f\xcd\xcc\x4c\x3e\xcd\xcc\xcc\xbe\x9a\x99\x99\x3e\xcd\xcc\x4c\x3d' "$header"; } >w.safetensors
# figures FILE MAE RMSE R2: within 1e-5 of them
figures() {
    awk -v mae="$2" -v rmse="$3" -v r2="$4" -F'[:,]' '
        function near(a, b) { return a - b < 1e-5 * b && b - a < 1e-5 * b }
        /"(eval_)?mae"/ { good += near($2, mae) } /"(eval_)?rmse"/ { good += near($2, rmse) } /"(eval_)?r2"/ { good += near($2, r2) }
        END { exit good != 3 }' "$1" && pass || fail "$1: $(grep '"mae\|"rmse\|"r2' "$1" | tr -d '\n'), they should be $2 $3 $4"
}
expect_code 0 "$CLTRAIN" train c.json --init w.safetensors --out run data.eval_path=e.csv
expect_text "column 'a': 1 of 8 cells are blank, the first in line 4; they count as 2.67857" \
    "'e.csv': column 'kind': 1 of 5 cells hold words that the training part does not have, the first 'green' in line 4" \
    'MAE 13.8466 \| RMSE 15.6316 \| R2 0.8264'
grep '"eval_loss"' run/metrics.jsonl | tr ',' '\n' >evaluation
figures evaluation 13.846629907538054 15.631587683073162 0.8263597686941412
expect_code 0 "$CLTRAIN" eval run --json eval.json
figures eval.json 13.846629907538054 15.631587683073162 0.8263597686941412
expect_code 0 "$CLTRAIN" eval run --on train --json train.json
figures train.json 7.728963665469733 8.794847796764591 0.8911325761986671
mv t.csv away.csv # the run has kept what the training part told
expect_code 0 "$CLTRAIN" eval run --json eval.json
figures eval.json 13.846629907538054 15.631587683073162 0.8263597686941412
expect_code 3 "$CLTRAIN" eval c.json --init w.safetensors data.eval_path=e.csv
mv away.csv t.csv

# Predictions have the target's unit; the order of columns, the target and other columns do not matter.
want='118.62077543 127.61051435 99.85604032 164.04055154 103.90739968'
near() { # FILE [NUMBERS]: the predictions of e.csv
    tail -n +2 "$1" | cut -d, -f2 | awk -v numbers="${2:-$want}" 'BEGIN { split(numbers, want, " ") }
        { d = $1 - want[NR]; bad += d > 1e-4 || d < -1e-4 } END { exit NR != 5 || bad }' && pass || fail "$1: $(tail -n +2 "$1" | tr '\n' ' ')"
}
expect_code 0 "$CLTRAIN" predict run e.csv --out p.csv
expect_text "column 'kind': 1 of 5 cells hold words" "column 'a': 1 of 5 cells are blank"
near p.csv
cut -d, -f3,4 e.csv >inputs.csv
expect_code 0 "$CLTRAIN" predict run inputs.csv --out p.csv
near p.csv
cut -d, -f4,3 --output-delimiter='	' e.csv | sed 's/^/x\t/; 1s/^x/id/' >tabs.tsv
expect_code 0 "$CLTRAIN" predict run tabs.tsv --out p.csv
near p.csv
sed '1s/kind/kin/' e.csv >other.csv
expect_code 3 "$CLTRAIN" predict run other.csv --out p.csv
expect_text "there is no column 'kind', which the training table has; did you mean 'kin'\?"
expect_code 3 "$CLTRAIN" eval run data.eval_path=other.csv

gzip -c e.csv >e.csv.gz
expect_code 0 "$CLTRAIN" predict run e.csv.gz --out p.csv
near p.csv

# Lines of the standard input, with names in any order or without.
lines() { "$CLTRAIN" predict run --input - >p.csv 2>told; }
lines <e.csv
near p.csv
grep -q "column 'kind': 1 of 5 cells hold words that the training part does not have, the first 'green' in line 4" told && pass || fail "$(cat told)"
tail -n +2 e.csv | cut -d, -f3,4 | awk -F, -v OFS=, '{ print $2, $1 }' | lines
near p.csv
printf 'kind,b\nred,1\n' | lines
grep -q "there is no column 'a', which the training table has" told && pass || fail "$(cat told)"

# The weights alone do not tell how cells become inputs, so export does.
expect_code 0 "$CLTRAIN" export run --out exported.safetensors
expect_text '^  x\[0\]  .a.: \(number - 2.67857142857142[0-9]*\) / 1.5[0-9]*; a blank cell counts as the number 2.6785' \
    "^  x\[1..3\]  'kind': 1 where it holds the word, else 0: '', 'blue', 'red'" '^  output \* 26.[0-9]* \+ 118.28125 is the target in the unit of the table' \
    'run/checkpoints/step_1/data.json, member "table"'

# Other ways to fill; numbers as words; a table with a given scale is not standardised.
expect_code 0 "$CLTRAIN" train c.json data.fill=median data.words=a --dry-run
expect_text '8 samples of 2 columns \(11 inputs'
expect_code 0 "$CLTRAIN" train c.json data.fill=median --dry-run
expect_text 'they count as 2.5 '
expect_code 0 "$CLTRAIN" train c.json data.fill=0 --dry-run
expect_text 'they count as 0 '
expect_code 0 "$CLTRAIN" eval c.json --init w.safetensors --on train data.standardize=false --json raw.json
expect_code 0 "$CLTRAIN" eval c.json --init w.safetensors --on train data.mean=0 data.scale=1 --json given.json
for figure in mae rmse r2; do
    [ "$(grep "\"$figure\"" raw.json)" = "$(grep "\"$figure\"" given.json)" ] && pass || fail "$figure: a given scale is standardised"
done
grep -q '"mae": 11[0-9]' raw.json && pass || fail "$(grep mae raw.json)" # predictions near 0

# A resumed run keeps the means of the first training: those of another table would shift predictions. A run
# that starts with the weights keeps them for the inputs, while the target's mean and deviation are the new
# table's.
head -n 6 t.csv >fewer.csv
expect_code 0 "$CLTRAIN" train c.json --init run data.path=fewer.csv --out tuned
expect_text "'fewer.csv' is standardised as the table that the weights were trained on"
expect_code 0 "$CLTRAIN" predict tuned e.csv --out p.csv
near p.csv '107.57181259 113.44482567 95.31277640 137.24463642 97.95953697'
cp t.csv kept.csv
head -n 6 kept.csv >t.csv
expect_code 0 "$CLTRAIN" train --resume run train.steps=2
expect_code 0 "$CLTRAIN" predict run e.csv --out p.csv
near p.csv
cp kept.csv t.csv
# Weights of a table with other columns: the means are learned again.
sed '1s/kind/sort/' t.csv >renamed.csv
expect_code 0 "$CLTRAIN" train c.json --init run data.path=renamed.csv --out renamed
expect_text "'renamed.csv' has other columns than the table that the weights were trained on"

# Only numbers may be separated by blanks.
printf 'a,b,y\n1,5,10\n2,3,20\n3,8,30\n' >ab.csv
expect_code 0 "$CLTRAIN" train c.json data.path=ab.csv --out ab
expect_code 0 "$CLTRAIN" predict ab ab.csv --out want.csv
printf '1 5\n 2   3 \n3 8\n' | "$CLTRAIN" predict ab --input - >p.csv 2>told
expect_same want.csv p.csv
printf 'b;a\n5;1\n3;2\n8;3\n' | "$CLTRAIN" predict ab --input - >p.csv 2>told
expect_same want.csv p.csv
printf '\n1 5\n 2   3 \n3 8\n' >blank.txt
expect_code 0 "$CLTRAIN" predict ab blank.txt --out p.csv
expect_same want.csv p.csv
printf 'b a\n5 1\n3  2\n8 3\n' >blank.txt
expect_code 0 "$CLTRAIN" predict ab blank.txt --out p.csv
expect_same want.csv p.csv

# Columns that are not inputs, and words that mean a blank cell: the same results as a table without them,
# from a file, from lines and by eval.
awk -F, -v OFS=, 'NR == 1 { print "id", $0; next } { print NR * 7, $1 == "" ? "NA" : $1, $2 == "" ? "?" : $2, $3 }' t.csv >id.csv
sed '1s/note/id/; s/133,red,$/133,red,NA/; s/190,,/190,?,/' e.csv >id_e.csv
grep -q '133,red,NA$' id_e.csv && grep -q '190,?,6' id_e.csv && pass || fail "$(cat id_e.csv)"
expect_code 3 "$CLTRAIN" train c.json data.path=id.csv --dry-run
expect_text "line 4, column 'a': 'NA' is not a number, as other cells of the column are; if it means a missing value, list it in data.blank"
id=(c.json data.path=id.csv data.eval_path=id_e.csv 'data.blank=["NA", "?"]')
expect_code 3 "$CLTRAIN" train "${id[@]}" 'data.drop_columns=["ids"]' --dry-run
expect_text "data.drop_columns: there is no column 'ids'; did you mean 'id'\?"
expect_code 0 "$CLTRAIN" train "${id[@]}" 'data.drop_columns=["id"]' --init w.safetensors --out id
expect_text "column 'a': 1 of 8 cells are blank, the first in line 4; they count as 2.67857" 'MAE 13.8466 \| RMSE 15.6316 \| R2 0.8264'
expect_code 0 "$CLTRAIN" predict id id_e.csv --out p.csv
near p.csv
"$CLTRAIN" predict id --input - <id_e.csv >p.csv 2>told
near p.csv
tail -n +2 id_e.csv | cut -d, -f3,4 | awk -F, -v OFS=, '{ print $2, $1 }' | "$CLTRAIN" predict id --input - >p.csv 2>told
near p.csv
sed 's/,?,/,unknown,/; s/,NA$/,-/' id_e.csv >other.csv # another table may have other words
expect_code 3 "$CLTRAIN" predict id other.csv --out p.csv
expect_text "line 3, column 'a': '-' is not a number, as the column is in the training table; .* data.blank"
expect_code 0 "$CLTRAIN" predict id other.csv --out p.csv 'data.blank=["-", "unknown"]'
near p.csv
expect_code 2 "$CLTRAIN" eval id 'data.drop_columns=[]'
expect_text 'these keys were fixed when the run read its table'
expect_code 0 "$CLTRAIN" train c.json --init id data.path=id.csv 'data.blank=["NA", "?"]' 'data.drop_columns=["id"]' --dry-run
expect_text "'id.csv' is standardised as the table that the weights were trained on"
expect_code 3 "$CLTRAIN" train c.json data.path=id.csv 'data.blank=["NA", "?", "110"]' --dry-run
expect_text "line 2, column 'y': the target is missing; remove the line"

# Names that the table does not have: a file and the standard input give the same message, and nothing is
# written before.
printf 'x1,x2\n1,5\n' >unknown.csv
unknown="there is no column 'a', which the training table has"
expect_code 3 "$CLTRAIN" predict ab unknown.csv
expect_text "'unknown.csv': $unknown"
reject_text '^sample'
"$CLTRAIN" predict ab --input - <unknown.csv >p.csv 2>told && fail 'unknown names are taken' || pass
grep -q "'the standard input': $unknown" told && [ ! -s p.csv ] && pass || fail "$(cat told p.csv)"
# Two blank cells are a sample, although neither is a number.
printf ',\n' | "$CLTRAIN" predict ab --input - >p.csv 2>told
[ "$(wc -l <p.csv)" = 2 ] && pass || fail "$(cat told p.csv)"

# Words with blanks: the only input of a table is the whole line; of several inputs each cell is one.
printf 'city,y\nNew York,1\nSan Jose,2\nParis,3\nYork New,4\n' >city.csv
expect_code 0 "$CLTRAIN" train c.json data.path=city.csv --out city
expect_code 0 "$CLTRAIN" predict city city.csv --out want.csv
tail -n +2 city.csv | cut -d, -f1 | "$CLTRAIN" predict city --input - >p.csv 2>told
expect_same want.csv p.csv
reject_words() { if grep -q 'hold words' told; then fail "$(cat told)"; else pass; fi; }
reject_words
printf 'city,to,n,y\nNew York,Paris,1,1\nSan Jose,New York,2,2\n' >way.csv
expect_code 0 "$CLTRAIN" train c.json data.path=way.csv --out way
expect_code 0 "$CLTRAIN" predict way way.csv --out want.csv
tail -n +2 way.csv | cut -d, -f1-3 | "$CLTRAIN" predict way --input - >p.csv 2>told
expect_same want.csv p.csv
reject_words
# Between blanks "New York Rome" has as many words as the table inputs, but the first line has fixed the separator.
printf 'New York,Paris,1\nNew York Rome\n' | "$CLTRAIN" predict way --input - >p.csv 2>told && fail 'a line of one cell is taken' || pass
grep -q 'line 2: it has 1 cell, and the first line has 3' told && pass || fail "$(cat told)"

# A constant column and a constant target do no harm; whole numbers are a regression's targets, too.
printf 'a,b,y\n1,7,5\n2,7,5\n3,7,5\n4,7,5\n' >flat.csv
expect_code 0 "$CLTRAIN" train c.json data.path=flat.csv train.steps=3 --out flat
expect_code 0 "$CLTRAIN" eval flat --on train
reject_text nan
# The squares of a tiny spread underflow: the column keeps a deviation of 1.
printf 'a,b,y\n1e-300,1,5\n2e-300,2,6\n' >tiny.csv
expect_code 0 "$CLTRAIN" train c.json data.path=tiny.csv --out tiny
expect_code 0 "$CLTRAIN" predict tiny tiny.csv
reject_text 'nan|inf,|not finite'
finish
