#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# The checker on the command line: skips have reasons, listing names needs no device, shards add up, reports are written or refused
# at once; a broken kernel ends with code 1 and the command that repeats the check. test_verify_ops.sh and test_verify_caps.sh run
# the small cases.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all "there is no OpenCL device"

# Checks that need a missing capability are skipped, with the reason.
expect_code 0 "$CLTRAIN" verify -t 'softmax.odd' --caps none -v
expect_text '^SKIP +softmax\.odd\[group\]/correct' 'the device lacks local' '^PASS +softmax\.odd\[row\]/correct'

# A loss whose terms cancel is as accurate as its terms: with this seed the sum is small and the terms are not.
expect_code 0 "$CLTRAIN" verify --small -t cross_entropy.weights_mixed --mode correct --seed 253240599
expect_text '^[0-9]+ passed, 0 failed'
# The same holds for the deviations in a norm whose values are close to their mean.
expect_code 0 "$CLTRAIN" verify --small -t 'update.spike_off' --mode correct --caps none --seed 108255164
expect_text '^[0-9]+ passed, 0 failed'
# A gradient that is the sum of several, and moments of many equal values: their rounding errors have one sign.
expect_code 0 "$CLTRAIN" verify --small -t 'max_pool.volume*' --mode correct --seed 49287987
expect_text '^[0-9]+ passed, 0 failed'
expect_code 0 "$CLTRAIN" verify --small -t 'gemm.moments_relu*' --mode correct --seed 689286907
expect_text '^[0-9]+ passed, 0 failed'

# Names: listing needs no device, '[' is not special in patterns, shards add up.
"$CLTRAIN" verify --quick --mode list >names
expect_awk "the list of names is short or has doubles" '{ n++; bad += seen[$0]++ } END { exit n < 300 || bad }' names
OCL_ICD_VENDORS=/nonexistent "$CLTRAIN" verify --quick --mode list >names.without
expect_same names names.without
for i in 0 1 2; do "$CLTRAIN" verify --quick --mode list --shard $i/3; done | sort >sharded
sort names >sorted
expect_same sorted sharded
expect_code 0 "$CLTRAIN" verify -t 'relu.tail[lane]/correct' --seed 9 -v
expect_text '^PASS +relu\.tail\[lane\]/correct' '^1 passed, 0 failed, 0 skipped'
expect_code 0 "$CLTRAIN" verify --quick --shard 1/40 --seed 9
# The device's name, progress, why checks were skipped; --quick checks the device's own variants, --small all.
expect_code 0 "$CLTRAIN" verify --quick -t 'softmax.*' --seed 9
expect_text '^device [0-9]+:[0-9]+: .+ \| [0-9]+ checks, seed 9$' '^skipped:$' '^ +[0-9]+  [a-z]' "^--quick leaves out .*'cltrain verify' checks all" \
    '^[0-9]+ passed, 0 failed, [0-9]+ skipped$'
reject_text '^PASS' $'\r' $'\033'
quick=$(tail -n 1 "$out")
expect_code 0 "$CLTRAIN" verify --small -t 'softmax.*' --seed 9 --jobs 2
expect_awk "--small checks more than --quick, not: $quick" 'BEGIN { split("'"$quick"'", q, " ") } / passed, / { more = $1 > q[1] && $1 + $5 == q[1] + q[5] }
    END { exit !more }' "$out"
expect_code 2 "$CLTRAIN" verify -t 'rleu.tail'
expect_text 'rleu\.tail' 'mode list'
expect_code 2 "$CLTRAIN" verify --caps lcoal
expect_code 2 "$CLTRAIN" verify --shard 3/3

# A kernel that computes something else.
mkdir kernels
sed 's|^#define STORE_f32(p, i, v).*|#define STORE_f32(p, i, v) ((p)[i] = (v) + 1e-3f)|' \
    "$CLTRAIN_BUILD_DIR/kernels/common.clh" >kernels/common.clh
if cmp -s kernels/common.clh "$CLTRAIN_BUILD_DIR/kernels/common.clh"; then fail "nothing was planted"; fi
CLTRAIN_KERNEL_DIR=$work/kernels expect_code 1 "$CLTRAIN" verify -t 'relu.tail[lane]/correct' --seed 9 --caps all
expect_text '^FAIL +relu\.tail\[lane\]/correct' "repeat: cltrain verify -t 'relu.tail\[lane\]/correct' --seed 9 --device "

# SGD keeps zeros between parameters with a driver whose fma(a, b, 0) has the sign of a * b (Mesa's rusticl).
mkdir zeros
sed -e 's|fma(|other_fma(|g' -e 's|^#ifndef MOMENTUM$|#define other_fma(a, b, c) select(fma(a, b, c), (a) * (b), (c) == 0.0f)\n&|' \
    "$CLTRAIN_BUILD_DIR/kernels/sgd.cl" >zeros/sgd.cl
expect_awk 'the other fma is planted' '/[^_]fma\(/ { own++ } /other_fma/ { n++ } END { exit own != 1 || n < 5 }' zeros/sgd.cl
CLTRAIN_KERNEL_DIR=$work/zeros expect_code 0 "$CLTRAIN" verify -t 'update.sgd' --seed 9 --mode correct
expect_text '^[12] passed, 0 failed'
finish
