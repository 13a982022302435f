#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
#
# The time of planning is proportional to the size of the net: four times as many layers take less than ten times as much of the
# processor (sixteen times if it grew with the square); 250 and 1,000 layers, and (all cases) 1,000 and 4,000, also with recomputed blocks.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# net LAYERS: residual blocks of five layers, with or without names.
net() {
    awk -v n="$1" 'BEGIN {
        printf "{\"model\": {\"type\": \"graph\", \"layers\": [{\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 16, \"name\": \"s0\"}"
        for (i = 1; i <= n / 5; i++) {
            printf ",\n{\"op\": \"layernorm\"}, {\"op\": \"linear\", \"out\": 16}, {\"op\": \"gelu\"}, {\"op\": \"linear\", \"out\": 16, "
            printf "\"name\": \"b%d\"}, {\"op\": \"add\", \"name\": \"s%d\", \"inputs\": [\"s%d\", \"b%d\"]}", i, i, i - 1, i
        }
        printf ",\n{\"op\": \"linear\", \"out\": 4}, {\"op\": \"cross_entropy\"}]},\n\"data\": {\"type\": \"synthetic\", \"samples\": 64, "
        print "\"shape\": [16], \"classes\": 4, \"micro_batch\": 2}, \"train\": {\"steps\": 1}}"
    }' >"net$1.json"
}
# plan LAYERS [OVERRIDE...]: stores in `used` the seconds of processor time for planning that net, the least
# of two tries, since other load disturbs caches and clock rates.
plan() {
    local before after layers=$1 try best=
    shift
    net "$layers"
    for try in 1 2; do
        before=$(awk '{ print $16 + $17 }' "/proc/$$/stat")
        expect_code 0 "$CLTRAIN" plan "net$layers.json" --device generic "$@"
        after=$(awk '{ print $16 + $17 }' "/proc/$$/stat")
        [ "$try" -eq 2 ] && [ "$best" -le $((after - before)) ] || best=$((after - before))
    done
    expect_text 'parameters'
    used=$(awk -v t="$best" -v hz="$(getconf CLK_TCK)" 'BEGIN { print t / hz }')
}
# grows FROM [OVERRIDE...]: plans FROM layers and four times as many.
grows() {
    local layers=$1 one
    shift
    plan "$layers" "$@"
    one=$used
    plan $((4 * layers)) "$@"
    echo "$layers layers take $one s of the processor, $((4 * layers)) take $used s${*:+ with $*}"
    if awk -v one="$one" -v used="$used" 'BEGIN { exit !(used > 0 && used <= 10 * one) }'; then pass; else fail "planning takes $used s instead of $one s for four times as many layers"; fi
}

grows 250
if all_cases; then
    for recompute in none gelu block; do grows 1000 train.recompute=$recompute; done
fi
finish
