#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 20
#
# Drivers that accept everything and compute wrong results (driver_shim.c): verify detects each of them,
# names the check, and finds an occasional error by repeating its checks.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
need_shim
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'

# caught FAULT CHECKS NAME: verify of these checks fails, and the failed check's name begins with NAME.
caught() {
    expect_code 1 env LD_PRELOAD="$shim" CLT_SHIM="$1" "$CLTRAIN" verify -t "$2" --mode correct --jobs 1
    expect_text "^FAIL +$3"
}
for name in exp exp2 log log2 sqrt sinpi cospi; do # the built-in functions of one float that kernels call
    caught builtin=$name/8 "builtins.$name[scalar]" "builtins\\.$name\\[scalar\\]"
done
caught 'launch:*:far=8388608' 'memory.offsets[16m]' 'memory\.offsets\[16m\]'
caught 'launch:*:group=1000' 'groups.many' 'groups\.many'
caught 'launch:*:group=100' 'transpose.swap_long' 'transpose\.swap_long' # of an op, too

# --- now and then: one launch in 150 ---
code=0
LD_PRELOAD="$shim" CLT_SHIM='launch:*:garbage=0.0000001:every=150' guarded \
    "$CLTRAIN" verify -t relu.one --mode correct --seconds 20 --jobs 1 --seed 7 --json some.json --junit some.xml >"$out" 2>&1 || code=$?
rounds=$(sed -n 's/^up to \([0-9]*\) round.*/\1/p' "$out")
if [ "$code" -eq 1 ]; then
    expect_text '^FAIL +relu\.one' 'in round [0-9]+, with seed [0-9]+' "repeat: cltrain verify -t 'relu.one" \
        'checks failed in [0-9]+ rounds \(seeds 7 to [0-9]+\)'
    expect_awk 'the JSON does not name the round' '/"round": [0-9]/ { n++ } END { exit n < 1 }' some.json
    expect_awk 'the JUnit does not name the round' '/in round [0-9]+, with seed/ { n++ } END { exit n < 1 }' some.xml
elif [ "${rounds:-0}" -ge 150 ] || [ "$code" -ne 0 ]; then
    fail "code $code, and a fault in one launch of 150 was not met in ${rounds:-no} rounds"
else
    note_skip "only ${rounds:-0} rounds were made in the time"
fi

# --- the budget ---
expect_code 0 "$CLTRAIN" verify -t relu.one --mode correct --seconds 2 --seed 7 --json good.json
expect_text '^up to [0-9]+ rounds? in [0-9]+ s: 2 checks' 'with a probability of 95 % these rounds would have found .* in at least [0-9.]+ % of its runs' \
    '^2 passed, 0 failed, 0 skipped'
expect_code 0 "$CLTRAIN" verify --baseline good.json --seconds 2
expect_text '0 worse, .*2 with equal bits, 0 with other bits'
for wrong in '--mode list' '--mode perf' '--after relu.one' '--run nothing'; do
    # shellcheck disable=SC2086
    expect_code 2 "$CLTRAIN" verify --seconds 2 $wrong
done
finish
