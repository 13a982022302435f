#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 20 ctest-optimise: no
#
# The commands of docs/sweeps.md, as they stand there: a grid with its report and comparison, and successive halving.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device: nothing is run'

ln -s "$CLTRAIN_SOURCE_DIR/configs" configs
page=$CLTRAIN_SOURCE_DIR/docs/sweeps.md
# block TEXT: the page's block of commands that contains this text
block() { awk -v text="$1" '/^    / { block = block substr($0, 5) "\n"; next } { if (index(block, text)) printf "%s", block; block = "" }' "$page"; }
{ echo "cltrain() { \"$CLTRAIN\" \"\$@\"; }"; block '> rates.json'; } >grid.sh
{ echo "cltrain() { \"$CLTRAIN\" \"\$@\"; }"; block '> search.json'; } >halving.sh
expect_awk 'the page has the two sweeps' '/^cltrain sweep/ { n++ } END { exit n != 3 }' grid.sh halving.sh

expect_code 0 bash -e grid.sh
expect_text '^trial-06 +0\.003 +relu +- +- +- +waiting' '^trial-06 is done: eval_loss ' '^best: trial-0[1-6], eval_loss ' \
    '^its config: runs/rates/trial-0[1-6]/config.resolved.json$' '^run +steps' 'model.activation: '
expect_file runs/rates/report.html
[ "$(find runs/rates -maxdepth 1 -name 'trial-*' | wc -l)" -eq 6 ] && pass || fail 'there are not six runs'
# the example of a table on the page: the same run is the best, with a loss of that size
"$CLTRAIN" sweep runs/rates --table >"$out" 2>&1
best_of() { sed -n -E 's/^ *best: (trial-[0-9]+), eval_loss ([0-9.e-]+): (.*)$/\1 \3 \2/p' "$1"; }
expect_awk "the best run is another one than on the page: $(best_of "$out")" -v told="$(best_of "$page")" -v found="$(best_of "$out")" '
    BEGIN { n = split(told, a, " "); m = split(found, b, " ")
            for (i = 1; i < n; i++) if (a[i] != b[i]) exit 1
            exit !(n == m && n > 2 && b[n] > a[n] / 4 && b[n] < a[n] * 4) }'

expect_code 0 bash -e halving.sh
expect_text '^rung 1: 9 trials to step 40$' '^rung 2: 3 trials to step 120$' '^rung 3: 1 trial to the end$' '^trial-0[1-9] +.* 360 +[0-9.e-]+ .*done$'
[ "$(grep -c ' 120 .*left$' "$out")" -eq 2 ] && [ "$(grep -c ' 40 .*left$' "$out")" -eq 6 ] && pass || fail 'the rungs of the table are others'
finish
