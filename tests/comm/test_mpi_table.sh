#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-optimise: no
#
# A regression on a table with several ranks: all of them standardise in the same way, and MAE, RMSE and R2
# of their parts of the samples, whose means differ, combine to those of one rank. A resumed run uses the
# facts that rank 0 reads from the checkpoint.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

awk 'BEGIN { srand(3); print "a,kind,y"
    for (i = 0; i < 57; i++) { a = rand() * 10; printf "%s,%s,%.3f\n", i % 9 == 4 ? "" : a, i % 3 ? "red" : "blue", 5000 + 30 * a + i * i } }' >t.csv
net mse data.eval_path=t.csv data.micro_batch=4 data.global_batch=16 optimizer.learning_rate=0.01 train.steps=12 parallel.rank_invariant=true \
    >c.json
expect_code 0 "$CLTRAIN" train c.json --out one
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train c.json --out two
expect_same <(values eval_loss one/metrics.jsonl) <(values eval_loss two/metrics.jsonl)
expect_same <(sed -n '/"table"/,$p' one/checkpoints/*/data.json | grep -v folder) <(sed -n '/"table"/,$p' two/checkpoints/*/data.json | grep -v folder)
figures() { sed -n 's/.*"\(mae\|rmse\|r2\)": *\([-+.0-9e]*\).*/\2/p' "$1"; }
# close FILE FILE: the figures are equal, except for the order of sums
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
# Messages about the data are printed once: not by each rank, and not separately for the training and the
# evaluation part.
once() { # RANKS PATTERN COMMAND...
    expect_code 0 "${mpi[@]}" "$1" "${@:3}"
    expect_awk "said $(grep -c -E "$2" "$out") times with $1 ranks: $2" "/$2/ { n++ } END { exit n != 1 }" "$out"
}
{ echo a,a,y && seq -f '%g,1,2' 40; } >names.csv
mkdir texts && for i in 1 2 3; do seq 300 >texts/$i.txt; done && : >texts/4.txt && printf '\x89PNG\r\n\x1a\n' >texts/5.png
net gpt model.heads=1 data.path=texts data.split=0.3 data.micro_batch=2 data.global_batch=4 train.steps=1 >text.json
printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (16, 2), }" >x.npy
printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (16, 1), }" >y.npy
head -c 32 /dev/zero >>x.npy && head -c 64 /dev/zero >>y.npy
for ranks in 1 2; do
    once $ranks "columns 1 and 2 are both named 'a'" "$CLTRAIN" train c.json --out n$ranks data.path=names.csv data.eval_path=[] data.split=0.3 train.steps=1
    once $ranks "1 of 5 files of 'texts' is skipped" "$CLTRAIN" train text.json --out t$ranks
    once $ranks "texts.4.txt' is empty" "$CLTRAIN" train text.json --dry-run
    once $ranks 'inputs are bytes' "$CLTRAIN" train c.json --out b$ranks data.type=npy data.path=x.npy data.targets=y.npy data.eval_path=[] train.steps=1
done
cp t.csv kept.csv
head -n 30 kept.csv >t.csv
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train --resume two train.steps=14 data.eval_path=kept.csv
expect_same <(sed -n '/"columns"/,/"fingerprint"/p' one/checkpoints/*/data.json | grep '"mean"\|"std"\|"fill"') \
    <(sed -n '/"columns"/,/"fingerprint"/p' two/checkpoints/step_14/data.json | grep '"mean"\|"std"\|"fill"')
finish
