#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
#
# The time of planning is proportional to the size of the net: 1,000 layers are planned in less than two seconds of CPU time, and
# (all cases) four times as many in less than eight times that, also with recomputed blocks.
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
# seconds WHAT COMMAND...: stores the CPU time of a command, which must succeed, in the variable `used`.
seconds() {
    local before after
    before=$(awk '{ print $16 + $17 }' "/proc/$$/stat")
    expect_code 0 "$@"
    after=$(awk '{ print $16 + $17 }' "/proc/$$/stat")
    used=$(awk -v t=$((after - before)) -v hz="$(getconf CLK_TCK)" 'BEGIN { print t / hz }')
}
# at_most LIMIT WHAT: checks `used`.
at_most() {
    if awk -v used="$used" -v limit="$1" 'BEGIN { exit !(used <= limit) }'; then pass; else fail "$2 took $used s of the processor, at most $1 expected"; fi
}

net 1000
seconds "$CLTRAIN" plan net1000.json --device generic
at_most 2 '1,000 layers'
expect_text 'parameters'
if all_cases; then
    for recompute in none gelu block; do
        seconds "$CLTRAIN" plan net1000.json --device generic train.recompute=$recompute
        one=$used
        net 4000
        seconds "$CLTRAIN" plan net4000.json --device generic train.recompute=$recompute
        at_most "$(awk -v one="$one" 'BEGIN { print 8 * (one + 0.1) }')" "4,000 layers with train.recompute=$recompute (1,000 took $one s)"
    done
fi
finish
