#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 12
#
# A run of the checker compared with an earlier one: an unchanged device gives the same bits; other bits are
# reported; results that became worse fail, results that fail in both runs do not; a file that is damaged,
# of a newer version or not a baseline is refused.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all "there is no OpenCL device"
checks='relu.tail,softmax.odd,silu.*'
cd "$work" || exit 1
expect_code 0 "$CLTRAIN" verify -t "$checks" --small --mode correct --json base.json
expect_text '^device '

# The same device: the same checks with the same seed, and the same bits.
expect_code 0 "$CLTRAIN" verify --baseline base.json --json again.json --junit again.xml
expect_text '0 worse, 0 fail as before, 0 fixed, 0 new; results: [1-9][0-9]* with equal bits, 0 with other bits'
expect_same <(sed -e '/"ms":/d' -e '/_xxh64/d' base.json) <(sed -e '/"ms":/d' -e '/_xxh64/d' again.json)
expect_code 0 "$CLTRAIN" verify --baseline again.json -t 'softmax.odd'
expect_text '0 worse' # what is left out on purpose is not missing

# A device that rounds in another way is right, too; its other bits are reported.
mkdir other broken
sed 's|^#define STORE_f32(p, i, v).*|#define STORE_f32(p, i, v) ((p)[i] = (v) * (1.0f + 0x1p-23f))|' "$CLTRAIN_BUILD_DIR/kernels/common.clh" >other/common.clh
sed 's|^#define STORE_f32(p, i, v).*|#define STORE_f32(p, i, v) ((p)[i] = (v) + 1e-3f)|' "$CLTRAIN_BUILD_DIR/kernels/common.clh" >broken/common.clh
for kind in other broken; do
    if cmp -s $kind/common.clh "$CLTRAIN_BUILD_DIR/kernels/common.clh"; then fail "nothing was planted in $kind"; fi
done
CLTRAIN_KERNEL_DIR=$work/other expect_code 0 "$CLTRAIN" verify --caps all --baseline base.json -t 'softmax.*,silu.*' # relu must be exact
expect_text '0 worse, .*results: [0-9]+ with equal bits, [1-9][0-9]* with other bits:' '^  .*(silu|softmax|relu)\.[a-z_0-9]+\[[a-z]+\]/correct'

# A device that became wrong fails, and is named; capabilities that it has lost count as well.
CLTRAIN_KERNEL_DIR=$work/broken expect_code 1 "$CLTRAIN" verify --caps all --baseline base.json --junit worse.xml
expect_text '^worse +relu\.tail\[lane\]/correct: PASS, now FAIL: ' 'checks are worse than in the baseline'
grep -q '<failure' worse.xml && pass || fail 'JUnit has no failures'
expect_code 1 "$CLTRAIN" verify --baseline base.json --caps none
expect_text '^worse +softmax\.odd\[group\]/correct: PASS, now SKIP: .*lacks local'

# A device that is as wrong as before does not fail; one that was corrected is reported.
CLTRAIN_KERNEL_DIR=$work/broken expect_code 1 "$CLTRAIN" verify --caps all -t relu.tail --small --mode correct --json wrong.json
CLTRAIN_KERNEL_DIR=$work/broken expect_code 0 "$CLTRAIN" verify --baseline wrong.json --junit known.xml
expect_text '^known +relu\.tail\[lane\]/correct: fails as in the baseline' '0 worse, [1-9][0-9]* fail as before'
expect_awk 'JUnit counts no failures' '/<testsuite / { good = /failures="0"/ } /<failure/ { bad = 1 } END { exit bad || !good }' known.xml
expect_code 0 "$CLTRAIN" verify --baseline wrong.json
expect_text '^fixed +relu\.tail\[lane\]/correct'

# A check that only the baseline has is missing; a new one that fails is worse.
reseal() { "$CLTRAIN_BUILD_DIR/tests/seal" verify_xxh64 <"$1" >"$2"; }
sed 's|"name": "relu.tail\[lane\]/correct"|"name": "relu.gone/correct"|' base.json >edited.json
reseal edited.json gone.json
expect_code 1 "$CLTRAIN" verify --baseline gone.json --junit gone.xml
expect_text '^missing +relu\.gone/correct' '1 worse, .* 1 new'
grep -q 'name="relu.gone/correct".*<failure' gone.xml && pass || fail 'JUnit does not name the missing check'
CLTRAIN_KERNEL_DIR=$work/broken expect_code 1 "$CLTRAIN" verify --baseline gone.json --caps all -t relu.tail
expect_text '^worse +relu\.tail\[lane\]/correct: not in the baseline, now FAIL'

# Files that are not baselines.
refuse() { # reason
    expect_code 2 "$CLTRAIN" verify --baseline bad.json
    expect_text "$1"
}
refuse 'bad.json'
cp edited.json bad.json
refuse 'does not match its own hash'
head -c 1000 base.json >bad.json
refuse 'bad.json:[0-9]+:[0-9]+: '
echo '[]' >bad.json
refuse 'is not a result of the checker'
sed 's/"format_version": 1/"format_version": 9/' base.json | "$CLTRAIN_BUILD_DIR/tests/seal" verify_xxh64 >bad.json
refuse 'newer cltrain'
sed 's/"state": "PASS"/"state": "GOOD"/' base.json | "$CLTRAIN_BUILD_DIR/tests/seal" verify_xxh64 >bad.json
refuse 'has a result that this cltrain cannot read'
sed 's/"seed": [0-9]*/"seed": -4/' base.json | "$CLTRAIN_BUILD_DIR/tests/seal" verify_xxh64 >bad.json
refuse 'does not record its seed'
expect_code 2 "$CLTRAIN" verify --baseline base.json --seed 3
expect_text 'remove --seed'
expect_code 2 "$CLTRAIN" verify --baseline base.json --mode list
finish
