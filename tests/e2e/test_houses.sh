#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# House prices from a table with words and blank cells, with a config that leaves all but data and length to defaults: R2 is within 0.02 of
# what scikit-learn's MLPRegressor reaches on the same split (tests/bench/bench_houses.sh: 0.8878, mean of five seeds).
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/houses_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }

houses 2000 >houses.csv
head -n 1601 houses.csv >train.csv
{ head -n 1 houses.csv; tail -n 400 houses.csv; } >test.csv
[ "$(cksum <houses.csv)" = '2199683688 105536' ] && pass || note_skip "awk made another table here ($(cksum <houses.csv)); R2 may differ a little"
houses_config >houses.json
expect_code 0 "$CLTRAIN" train houses.json --out run
expect_text "column 'total_bedrooms': [0-9]+ of 1600 cells are blank" '8 columns \(12 inputs with one for each word\)'
expect_code 0 "$CLTRAIN" eval run --json eval.json
r2=$(sed -n 's/.*"r2": \([0-9.]*\).*/\1/p' eval.json)
awk -v r2="$r2" 'BEGIN { exit !(r2 > 0.8678 && r2 < 1) }' && pass || fail "R2 $r2, it should be at least 0.8678"
# The figures are computed from the predictions in the table's unit.
expect_code 0 "$CLTRAIN" predict run test.csv --out p.csv
paste -d, <(tail -n +2 p.csv | cut -d, -f2) <(tail -n +2 test.csv | cut -d, -f9) | awk -F, -v r2="$r2" '
    { e += ($1 - $2) ^ 2; s += $2; q += $2 ^ 2 } END { mine = 1 - e / (q - s * s / NR); d = mine - r2; exit !(NR == 400 && d < 1e-5 && d > -1e-5) }' && pass ||
    fail "predictions and eval disagree about R2 ($r2)"
# Runs are compared by the same figures, on the screen, for programs and on the page.
best=$(sed -n 's/.*"eval_r2":\([-0-9.e]*\).*/\1/p' run/metrics.jsonl | sort -g | tail -n 1)
expect_code 0 "$CLTRAIN" compare run run
expect_text '  MAE  *RMSE  *R2 ' "^run.* $(printf %.4f "$best") "
expect_code 0 "$CLTRAIN" compare run run --json
expect_text "\"best_r2\": $best,"
expect_code 0 "$CLTRAIN" compare run run --csv
expect_text '"best_mae","best_rmse","best_r2"'
expect_code 0 "$CLTRAIN" report run --out page.html
for text in '<span>evaluation R2</span>' '<span>evaluation RMSE</span>' '<h3>R2' '<h3>RMSE'; do
    if grep -q "$text" page.html; then pass; else fail "the page does not have $text"; fi
done
finish
