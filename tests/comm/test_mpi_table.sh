#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-optimise: no
#
# A regression on a table with several ranks: all of them standardise alike, and MAE, RMSE and R2 of their parts of the samples, whose
# means differ, add up to those of one rank. A resumed run takes what rank 0 reads of the checkpoint.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

awk 'BEGIN { srand(3); print "a,kind,y"
    for (i = 0; i < 57; i++) { a = rand() * 10; printf "%s,%s,%.3f\n", i % 9 == 4 ? "" : a, i % 3 ? "red" : "blue", 5000 + 30 * a + i * i } }' >t.csv
cat >c.json <<'JSON'
{"model": {"type": "mlp", "hidden": [8], "loss": "mse"}, "data": {"type": "csv", "path": "t.csv", "eval_path": "t.csv", "micro_batch": 4, "global_batch": 16},
 "optimizer": {"learning_rate": 0.01}, "train": {"steps": 12}, "parallel": {"rank_invariant": true}}
JSON
expect_code 0 "$CLTRAIN" train c.json --out one
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train c.json --out two
expect_same <(values eval_loss one/metrics.jsonl) <(values eval_loss two/metrics.jsonl)
expect_same <(sed -n '/"table"/,$p' one/checkpoints/*/data.json | grep -v folder) <(sed -n '/"table"/,$p' two/checkpoints/*/data.json | grep -v folder)
figures() { sed -n 's/.*"\(mae\|rmse\|r2\)": *\([-+.0-9e]*\).*/\2/p' "$1"; }
# close FILE FILE: the figures are equal but for the order of sums
close() {
    paste <(figures "$1") <(figures "$2") |
        awk '{ d = $1 - $2; bad += !(d <= 1e-9 && d >= -1e-9) } END { exit NR != 3 || bad }' && pass ||
        fail "$(grep '"mae"\|"rmse"\|"r2"' "$1" "$2")"
}
expect_code 0 "$CLTRAIN" eval one --json one.json
for ranks in 2 3; do
    expect_code 0 "${mpi[@]}" $ranks "$CLTRAIN" eval one --json ranks.json
    close one.json ranks.json
done
cp t.csv kept.csv
head -n 30 kept.csv >t.csv
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train --resume two train.steps=14 data.eval_path=kept.csv
expect_same <(sed -n '/"columns"/,/"fingerprint"/p' one/checkpoints/*/data.json | grep '"mean"\|"std"\|"fill"') \
    <(sed -n '/"columns"/,/"fingerprint"/p' two/checkpoints/step_14/data.json | grep '"mean"\|"std"\|"fill"')
finish
