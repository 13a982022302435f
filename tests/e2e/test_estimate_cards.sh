#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 3 ctest-optimise: no
#
# `estimate --for`: what a training would need, take and cost on cards that are not here. No device is opened.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
gpt2=$CLTRAIN_SOURCE_DIR/configs/gpt2-124m.json
export OCL_ICD_VENDORS=/nowhere # no driver is found

net mlp train.steps=1000 >net.json
# of CARD KEY: a number of the card in the last JSON
of() { awk -v card="\"$1\"" -v key="\"$2\":" '$1 == "\"card\":" { on = index($2, card) == 1 } on && $1 == key { sub(",", "", $2); print $2 }' "$out"; }
# equals_nearly A B: an awk expression; true where two numbers differ by at most a part in a million
equals_nearly() { printf '(%s) - (%s) <= 1e-6 * (%s) && (%s) - (%s) <= 1e-6 * (%s)' "$1" "$2" "$2" "$2" "$1" "$2"; }
holds() { # what, awk expression
    if awk "BEGIN { exit !($2) }"; then pass; else fail "$1: $2 does not hold"; fi
}

# --- a GPT-2 of 124 million parameters ---
expect_code 0 "$CLTRAIN" estimate "$gpt2" precision.mode=auto data.micro_batch=8 data.global_batch=64 model.context=1024 train.steps=100 --json \
    --for H100,A100,T4,V100,MI300X --price H100=2.5,T4=0.25
expect_text '"planned": true' '"reach": 0.4'
for card in H100 A100 T4; do
    seconds=$(of $card step_seconds)
    # at least six operations for each parameter and token; attention and the update are added
    least="6 * 124e6 * 65536 / (0.4e12 * $(of $card half_tflops))"
    holds "$card: a step" "$seconds > $least && $seconds < 4 * $least"
    holds "$card: the run" "$(equals_nearly "$(of $card seconds)" "100 * $seconds") && $(of $card steps) == 100"
done
holds 'a better card is faster' "$(of H100 step_seconds) < $(of A100 step_seconds) && $(of A100 step_seconds) < $(of T4 step_seconds)"
holds 'units that the engine does not use do not count' "$(of MI300X step_seconds) > $(of A100 step_seconds)"
for card in H100 T4; do
    cost="$(of $card seconds) / 3600 * $(of $card price_per_hour)"
    holds "$card: cost" "$(equals_nearly "$(of $card cost)" "$cost")"
done
if [ "$(of A100 cost)" = null ] && [ "$(of A100 price_per_hour)" = null ]; then pass; else fail 'no price is known for A100'; fi
one=$(of H100 step_seconds)
expect_code 0 "$CLTRAIN" estimate "$gpt2" precision.mode=auto data.micro_batch=8 data.global_batch=64 model.context=1024 train.steps=100 --json \
    --for h100 --price h100=2.5 --reach 80 --ranks 8
holds 'eight ranks at twice the reach' "$(of H100 step_seconds) < $one / 8 && $(of H100 step_seconds) > $one / 17"
holds 'eight cards are paid' "$(equals_nearly "$(of H100 cost)" "8 * 2.5 * $(of H100 seconds) / 3600")"

# --- what does not fit ---
expect_code 0 "$CLTRAIN" estimate "$gpt2" precision.mode=f32 data.micro_batch=64 data.global_batch=64 model.context=1024 --for T4,H200 --price T4=0.3
expect_text '^T4 .* no, micro-batch [0-9]+ would' '^H200 .* yes ' '^planned, not measured: from data sheets'
expect_code 0 "$CLTRAIN" estimate "$gpt2" model.layers=96 model.channels=12288 model.heads=96 data.micro_batch=1 data.global_batch=1 --for T4,A100 --json
expect_text '"needed_bytes": null' '"fits": false' '"largest_micro_batch": 0' '"seconds": null' '"cost": null'
expect_code 0 "$CLTRAIN" estimate net.json --for H200,H100,H100-PCIe,A100,A100-40GB,A10,A10G,L40S,L4,V100,V100-32GB,T4,RTX4090,RTX3090,MI300X \
    --price H200=1e-3 cost.currency=EUR
expect_text '^H200 .* yes .* EUR$' '^MI300X .* yes ' '; 1000 steps'
sed -n 's/^\([A-Z][A-Za-z0-9-]*\) .* yes .*/\1/p' "$out" >cards
while read -r card; do
    if tr '\n' ' ' <"$CLTRAIN_SOURCE_DIR/docs/cloud.md" | grep -q -E "[ ,(]${card}[ ,.]"; then pass; else fail "docs/cloud.md lacks the card $card"; fi
done <cards
if [ "$(wc -l <cards)" -eq 15 ]; then pass; else fail "cards: $(tr '\n' ' ' <cards)"; fi

# Without the data, passes over it do not give a number of steps.
expect_code 0 "$CLTRAIN" estimate "$gpt2" train.steps=0 train.epochs=2 --for A100,T4 --price T4=1
expect_text '^A100 .* yes .* (ms|s) +- +- +-$' 'the number of steps is not known: give train.steps'

# --- what is refused ---
refuse() { # PATTERN ARGUMENT...
    local pattern=$1
    shift
    expect_code 2 "$CLTRAIN" estimate net.json "$@"
    expect_text "$pattern"
}
refuse "there is no card 'H101' in the table; it has H200, H100, .*, MI300X" --for H100,H101
refuse "there is no card '' in the table" --for H100,
refuse 'names H100 twice' --for H100,A100,h100
refuse "'H100' of --price is not CARD=PRICE" --for H100 --price H100
for price in -1 nan inf 1e99 '' 2x '2 '; do refuse 'of --price is not CARD=PRICE with a number from 0 to 1e\+09' --for H100 --price "H100=$price"; done
refuse 'there is no card .B. in the table' --for H100 --price B=1
refuse '--price names T4, which --for lacks' --for H100 --price T4=1
refuse '--price needs --for' --price T4=1
refuse '--reach needs --for' --reach 50
refuse '--for cannot be combined with --device or --full' --for T4 --full
refuse '--reach' --for T4 --reach 0
expect_code 2 "$CLTRAIN" plan net.json --for T4
expect_code 4 "$CLTRAIN" estimate net.json --device a100
expect_text 'cltrain estimate CONFIG --for a100'
finish
