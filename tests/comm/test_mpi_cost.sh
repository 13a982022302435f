#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 5 ctest-optimise: no
#
# Two ranks under a budget stop after the same step, at most one step late: the resumed run has the same
# bits as one that never stopped. The ranks of one host pay for one machine.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
unset CLTRAIN_PRICE_PER_HOUR

net mlp model.dropout=0.1 data.global_batch=16 train.steps=1000000 train.log_every=1000000 >net.json
# The budget is raised until some of it is left after the start-up.
code=2
budget=2
while [ $code -eq 2 ] && [ $budget -lt 100000 ]; do
    rm -rf run
    guarded "${mpi[@]}" 2 "$CLTRAIN" train net.json --out run cost.per_hour=3600 cost.budget=$budget >"$out" 2>&1
    code=$?
    [ $code -eq 75 ] || expect_text 'cost.budget of .* is used up before the first step of this start'
    [ $code -eq 75 ] || budget=$((budget * 2))
done
if [ $code -eq 75 ]; then pass; else fail "code $code at the budget"; fi
expect_text '^cost.budget is reached'
at=$(newest run)
values cost run/metrics.jsonl | awk -v b=$budget '$1 >= b { n++ } END { print n + 0 }' >"$out"
expect_text '^[01]$'
grep '^{"event":"start"' run/metrics.jsonl >"$out"
expect_text '"machines":1,'
expect_code 0 "$CLTRAIN" ckpt verify "run/checkpoints/step_$at"
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out run --resume auto --max-steps $((at + 3)) cost.per_hour=3600
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out straight --max-steps $((at + 3))
for file in model.safetensors optimizer.safetensors; do
    expect_same "straight/checkpoints/step_$((at + 3))/$file" "run/checkpoints/step_$((at + 3))/$file"
done
finish
