#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 15
#
# Times of a run compared with an earlier one. The earlier times are edited to a hundredth and to a
# hundredfold, so no verdict depends on the machine: a check that takes a hundred times as long fails and is
# named, one that became faster does not.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all "there is no OpenCL device"
cd "$work" || exit 1
mkdir broken # relu is wrong all the time, which keeps nothing from being measured
sed 's|return select(x, (type)(0.0f), x < (type)(0.0f));|return x;|' "$CLTRAIN_BUILD_DIR/kernels/unary.cl" >broken/unary.cl
if cmp -s broken/unary.cl "$CLTRAIN_BUILD_DIR/kernels/unary.cl"; then fail 'nothing was planted'; fi
export CLTRAIN_KERNEL_DIR=$work/broken
expect_code 1 "$CLTRAIN" verify -t 'softmax.gpt2,relu.tail[lane]' --mode correct,perf --caps all --json base.json
expect_text '1 passed, 1 failed'
expect_awk 'ten processes have measured, three ways' \
    '/"what": "backward"/ { on = 1 } on && /"(ns|bytes|flops)": \[/ { way++; n = 0; next } on && way && /[0-9]/ { n++ } on && /\]/ && way { good += n == 10; way = way == 3 ? on = 0 : way }
     END { exit good != 3 }' base.json
# scaled FACTOR: the baseline with all times multiplied; lines of bare numbers are times
scaled() {
    awk -v factor="$1" '/^ +[0-9.e+-]+,?$/ { comma = sub(/,/, "") ? "," : ""; printf "%.17g%s\n", $1 * factor, comma; next } { print }' base.json |
        "$CLTRAIN_BUILD_DIR/tests/seal" verify_xxh64 >scaled.json
}
scaled 0.01
expect_code 1 "$CLTRAIN" verify --baseline scaled.json --junit slow.xml --json now.json
expect_text '^slower +softmax\.gpt2/perf: (forward|backward)[a-z_/]* takes [0-9.]+ times as long' 'times: 1 slower, 0 faster, 0 neither' '1 check is slower than in the baseline' '0 worse, 1 fail as before'
expect_awk 'JUnit counts the slow check' '/<testsuite / { good = /failures="1"/ } END { exit !good }' slow.xml
expect_awk 'twenty processes have measured what seems to be slower' '/"what": "forward"/ { on = 1 } on && /\]/ { exit n != 20 } on && /^ +[0-9.]+,?$/ { n++ }' now.json
grep -q '"state": "PASS"' now.json && pass || fail 'the record of a slow run is not its own'
scaled 100
expect_code 0 "$CLTRAIN" verify --baseline scaled.json
expect_text 'times: 0 slower, 1 faster, 0 neither'

# Times of another device say nothing about this one, and impossible times are refused.
scaled 0.01
sed 's/"device_name": ".*"/"device_name": "Another"/' scaled.json | "$CLTRAIN_BUILD_DIR/tests/seal" verify_xxh64 >other.json
expect_code 0 "$CLTRAIN" verify --baseline other.json
reject_text '^times:'
sed 's/"what": "forward"/"what": 3/' base.json | "$CLTRAIN_BUILD_DIR/tests/seal" verify_xxh64 >bad.json
expect_code 2 "$CLTRAIN" verify --baseline bad.json
expect_text 'has a result that this cltrain cannot read'
finish
