#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 20 ctest-optimise: no
#
# The loops of docs/sweeps.md, as they stand there: a run for each value, a table of all, a page; the second loop may be repeated.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device: nothing is run'

ln -s "$CLTRAIN_SOURCE_DIR/configs" configs
# block N: the N-th block of commands of the page
block() { awk -v n="$1" '/^    / { if (!inside) { inside = 1; at++ } if (at == n) print substr($0, 5); next } /^$/ { if (inside) held = 1; next } { inside = 0 }' "$CLTRAIN_SOURCE_DIR/docs/sweeps.md"; }
{ echo "cltrain() { \"$CLTRAIN\" \"\$@\"; }"; block 1; } >first.sh
{ echo "cltrain() { \"$CLTRAIN\" \"\$@\"; }"; block 2; } >second.sh
expect_awk 'the page has two loops' '/^for .* in .*; do$/ { n++ } END { exit n != 2 }' first.sh second.sh

expect_code 0 bash -e first.sh
expect_text '^run +steps' '^rate-0.0003 ' '^rate-0.01 ' 'optimizer.learning_rate: 0.01, was 0.0003'
expect_file rates.html
[ "$(find runs -maxdepth 1 -name 'rate-*' | wc -l)" -eq 4 ] && pass || fail 'there are not four runs'
expect_code 0 bash -e second.sh
expect_text 'done: [0-9]+ steps'
expect_code 0 bash -e second.sh
reject_text '^step 1/' # all runs are complete
finish
