#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 8
#
# deploy/verify.yml: the commands of its steps, taken from the file: a first run without a baseline, a
# second one compared with it, and one on a device that has become wrong, which leaves a folder for the
# vendor.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all "there is no OpenCL device"
cd "$work" || exit 1
workflow=$CLTRAIN_SOURCE_DIR/deploy/verify.yml

# commands STEP: the text after `run:` of the step with this name, on its line or as the block below it
commands() {
    awk -v step="$1" '
        /^      - / { on = $0 ~ "name: " step "$"; block = 0 }
        on && /^        run: [^|]/ { sub(/^        run: /, ""); print }
        on && block { sub(/^          /, ""); print }
        on && /^        run: \|$/ { block = 1 }' "$workflow"
}
commands 'What the driver can do' >doctor.sh
commands 'Verify' >verify.sh
if [ "$(wc -l <doctor.sh)" -eq 1 ] && [ "$(wc -l <verify.sh)" -gt 5 ]; then pass; else fail 'the steps were not found'; fi

mkdir bin
ln -s "$CLTRAIN" bin/cltrain
export PATH=$work/bin:$PATH CLTRAIN_PROGRAM=$CLTRAIN
eval "$(sed -n 's/^      \(BASELINE\): \([^ ]*\).*/export \1=\2/p' "$workflow")" # as the file sets it
export DEVICE=0:0 CHECKS='softmax.odd[row],relu.tail' MODES=correct

expect_code 0 bash -e doctor.sh
expect_code 0 bash -e verify.sh
expect_text '^[1-9][0-9]* passed, 0 failed'
for file in verify.json verify.xml; do
    if [ -s "results/$file" ]; then pass; else fail "there is no $file"; fi
done
expect_absent results/reduced

mkdir -p "$(dirname "$BASELINE")"
cp results/verify.json "$BASELINE"
expect_code 0 bash -e verify.sh
expect_text '^0 worse, 0 fail as before, 0 fixed, 0 new'

mkdir broken
sed 's|if (row >= rows)|if (row >= rows - 1)|' "$CLTRAIN_BUILD_DIR/kernels/softmax.cl" >broken/softmax.cl
if cmp -s broken/softmax.cl "$CLTRAIN_BUILD_DIR/kernels/softmax.cl"; then fail 'nothing was planted'; fi
CLTRAIN_KERNEL_DIR=$work/broken expect_code 1 bash -e verify.sh
expect_text '^worse +softmax\.odd\[row\]/correct: PASS, now FAIL: '
grep -q '<failure' results/verify.xml && pass || fail 'JUnit has no failure'
if [ -s results/reduced/softmax.odd-row/repro.c ]; then pass; else fail 'there is no folder for the vendor'; fi
finish
