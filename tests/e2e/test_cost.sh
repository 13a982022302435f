#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 6 ctest-optimise: no
#
# What a run costs: the sums over three sessions, one of them killed, equal sums by hand; they appear in the
# report, in watch and in compare; a budget ends the run in time to save, and a larger one lets it go on.
# Without a price nothing of this appears.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset CLTRAIN_PRICE_PER_HOUR

net mlp train.steps=1000000 checkpoint.every=20 train.log_every=1000000 >net.json
# cost_of RUN EVENT KEY [N]: a number of the member "cost" of the event: of the Nth event, or of the last
# one.
cost_of() {
    grep "^{\"event\":\"$2\"" "$1/metrics.jsonl" | sed -n -E "s/.*\"cost\":\{.*\"$3\":([-+0-9.e]+)[,}].*/\1/p" | { [ $# -lt 4 ] && tail -n 1 || sed -n "$4p"; }
}
# expect_close WHAT A B: within 0.01 %.
expect_close() {
    if awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; exit !(a != "" && b > 0 && d < 1e-4 * b && -d < 1e-4 * b) }'; then
        pass
    else
        fail "$1: $2, by hand $3"
    fi
}

# --- without a price ---
expect_code 0 "$CLTRAIN" train net.json --out free --max-steps 3
reject_text '^cost' goodput
expect_code 0 "$CLTRAIN" compare free free --json
reject_text '"cost' goodput
expect_code 0 "$CLTRAIN" compare free free --csv
reject_text '"cost' goodput
expect_code 0 "$CLTRAIN" watch free
reject_text '\| cost' goodput
grep -E '"cost"|goodput' free/metrics.jsonl >"$out"
reject_text .

# --- three sessions ---
tags='cost.tags=["Project=ML","<script>alert(1)</script>"]'
before=$EPOCHREALTIME
expect_code 0 "$CLTRAIN" train net.json --out run --max-steps 30 cost.per_hour=3600 cost.currency=USD "$tags" cost.on_demand_per_hour=14400
took=$(awk -v a="$before" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
expect_text '^cost +3600.00 USD an hour' '^cost: [0-9.]+ USD for .* for 1000 samples, .* for an epoch; goodput'
seconds1=$(cost_of run end seconds)
expect_awk 'a session lasts no longer than its process, and longer than its steps' \
    -v s="$seconds1" -v t="$took" 'BEGIN { exit !(s > 0 && s <= t) }'
expect_close 'a unit of money a second' "$(cost_of run end total)" "$seconds1"

# The second session is killed after some steps that are in no checkpoint.
CLTRAIN_PRICE_PER_HOUR=7200 "$CLTRAIN" train net.json --out run --resume auto checkpoint.every=0 cost.currency=USD >killed.out 2>&1 &
process=$!
await_from "$process" has_updates run 40
kill -9 "$process"
wait "$process" 2>/dev/null
last=$(grep '"update":.*}$' run/metrics.jsonl | tail -n 1) # the newest whole line
told=$(sed -E 's/.*"cost":([0-9.e+-]+),.*/\1/' <<<"$last")
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto --max-steps 60 cost.per_hour=1800 cost.currency=USD "$tags"
# The last line of the second session has its cost; the third session adds its own seconds.
begin3=$(awk -v t="$(cost_of run start total)" -v l="$told" 'BEGIN { printf "%.9f", (t - l) / 0.5 }')
seconds2=$(awk -v l="$told" -v s="$seconds1" 'BEGIN { printf "%.9f", (l - s) / 2 }')
expect_close 'seconds of the sessions' "$(cost_of run start seconds)" "$(awk -v a="$seconds1" -v b="$seconds2" -v c="$begin3" 'BEGIN { printf "%.9f", a + b + c }')"
expect_close 'cost of the sessions' "$(cost_of run end total)" \
    "$(awk -v a="$seconds1" -v b="$seconds2" -v c="$(cost_of run end seconds)" 'BEGIN { printf "%.9f", a + 2 * b + 0.5 * (c - a - b) }')"
expect_awk 'steps after the checkpoint are computed again' -v r="$(cost_of run end repeated_s)" 'BEGIN { exit !(r > 0) }'

expect_code 0 "$CLTRAIN" watch run
expect_text 'cost [0-9.]+ USD' 'goodput [0-9.]+%'
expect_code 0 "$CLTRAIN" compare run free
expect_text ' cost +1k samples +goodput '
expect_code 0 "$CLTRAIN" compare run free --json
expect_text '"cost": [0-9.]+' '"cost": null' '"goodput": 0'
expect_code 0 "$CLTRAIN" report run --out page.html
expect_awk 'the page shows the cost' '/<td>cost<\/td><td>[0-9.]+ USD</ { found = 1 } END { exit !found }' page.html
expect_code 0 "$CLTRAIN" report free --out free.html
expect_awk 'no cost without a price' '/<h3>Cost|goodput/ { found = 1 } END { exit found }' free.html
grep -c '<script>alert' page.html >"$out"
expect_text '^0$'
expect_awk 'tags are text' '/&lt;script&gt;alert/ { found = 1 } END { exit !found }' page.html

# --- a budget ---
# Start-up may take long on a busy machine, so the budget is raised until the run makes steps with it: then less than 30 s are left.
# spend RUN OPTION...: resumes a run until it ends at its budget, and sets $budget to that budget.
spend() {
    local run=$1 code=2 spare=2 spent
    shift
    while [ $code -eq 2 ] && [ $spare -lt 100000 ]; do
        spent=$(grep '"cost":{' "$run/metrics.jsonl" | tail -n 1 | sed -E 's/.*"total":([0-9.]+),.*/\1/')
        budget=$(awk -v s="$spent" -v m=$spare 'BEGIN { print s + m }')
        guarded "$CLTRAIN" train net.json --out "$run" --resume auto checkpoint.every=0 cost.per_hour=3600 "cost.budget=$budget" "$@" >"$out" 2>&1
        code=$?
        [ $code -eq 75 ] || expect_text 'cost.budget of .* is used up before the first step of this start: the run has cost '
        spare=$((spare * 2))
    done
    if [ $code -eq 75 ]; then pass; else fail "code $code at the budget"; fi
}
cp -r run bud
spend bud
expect_text '^cost.budget is reached; a larger one lets the run continue$' 'stopped after step [0-9]+ of 1000000; saved in'
grep '^{"event":"stopped"' bud/metrics.jsonl | tail -n 1 >"$out"
expect_text '"reason":"cost.budget is reached"'
at=$(sed -E 's/.*"step":([0-9]+),.*/\1/' "$out")
expect_file "bud/checkpoints/step_$at/manifest.json"
longest() { grep '"step_ms":' "$1/metrics.jsonl" | sed -E 's/.*"step_ms":([0-9.e+-]+).*/\1/' | sort -g | tail -n 1; }
expect_awk 'the budget would be reached by another step and its checkpoint' -v t="$(cost_of bud stopped total)" -v b="$budget" \
    -v s="$(cost_of bud stopped longest_save_s)" -v ms="$(longest bud)" 'BEGIN { exit !(s > 0 && t + s + ms / 1000 >= b) }'
values cost bud/metrics.jsonl | awk -v b="$budget" '$1 >= b { n++ } END { print n + 0 }' >"$out"
expect_text '^[01]$' # one step at most ends after it
expect_code 0 "$CLTRAIN" train net.json --out bud --resume auto --max-steps $((at + 3)) cost.per_hour=3600 cost.budget=1e9
expect_text "resumed from bud/checkpoints/step_$at at step $at" '^cost .* in earlier sessions, at most 1000000000'
# The times of the end are kept in reserve, also in the next session: here they are made longer than the budget allows.
# reserved KEY OPTION...: continues a copy of the run for 3 steps, with 1000 s to spare and a reserve of 10^6 s
reserved() {
    rm -rf kept && cp -r bud kept
    sed -i -E "s/\"$1\":[0-9.e+-]+/\"$1\":1000000/" kept/metrics.jsonl
    "$CLTRAIN" train net.json --out kept --resume auto --max-steps $((at + 6)) checkpoint.every=0 cost.per_hour=3600 \
        cost.budget="$(awk -v t="$(cost_of bud end total)" 'BEGIN { print t + 1000 }')" "${@:2}" >"$out" 2>&1
}
reserved longest_save_s
if [ $? -eq 2 ]; then pass; else fail 'a step was begun although no time to save was left'; fi
expect_text 'is used up before the first step of this start: the run has cost [0-9.]+, and finishing the run costs about 1000000'
reserved longest_evaluation_s
if [ $? -eq 75 ]; then pass; else fail 'the last step was made although no time to evaluate was left'; fi
expect_text "stopped after step $((at + 5)) of $((at + 6)); saved in"
reserved longest_upload_s # nothing is uploaded
if [ $? -eq 0 ]; then pass; else fail 'time for uploads was kept, and there are none'; fi
# A complete run stays complete, whatever its budget is.
expect_code 0 "$CLTRAIN" train net.json --out bud --resume auto --max-steps $((at + 3)) cost.per_hour=3600 cost.budget=0.001
expect_text 'the run is complete'

# At the budget no evaluation is begun: the next session makes it, and the run has the same bits as one that
# never stopped.
evaluating=(train.eval_every=1 checkpoint.best=loss)
expect_code 0 "$CLTRAIN" train net.json --out owes --max-steps 3 "${evaluating[@]}" cost.per_hour=3600
spend owes "${evaluating[@]}"
at=$(grep '^{"event":"stopped"' owes/metrics.jsonl | tail -n 1 | sed -E 's/.*"step":([0-9]+),.*/\1/')
evaluated() { grep -c "^{\"step\":$at,.*\"eval_loss\"" "$1/metrics.jsonl" >"$out"; }
evaluated owes
expect_text '^0$'
expect_code 0 "$CLTRAIN" train net.json --out owes --resume auto --max-steps $((at + 2)) "${evaluating[@]}"
expect_code 0 "$CLTRAIN" train net.json --out straight --max-steps $((at + 2)) "${evaluating[@]}"
evaluated owes
expect_text '^1$'
for file in model.safetensors optimizer.safetensors state.json; do
    expect_same "straight/checkpoints/step_$((at + 2))/$file" "owes/checkpoints/step_$((at + 2))/$file"
done

# --- a session that was killed before its first step: the file that it has left contains its cost ---
before=$(cost_of bud end total)
seconds=$(cost_of bud end seconds)
printf '{"count": 2, "seconds": 50.5, "cost": 100.25}\n' >bud/startup.json
expect_code 0 "$CLTRAIN" train net.json --out bud --resume auto --max-steps $((at + 1000)) checkpoint.every=0 cost.per_hour=3600
expect_absent bud/startup.json
grep '^{"event":"start"' bud/metrics.jsonl | tail -n 1 >"$out"
expect_text '"starts_cut_short":\{"count":2,"seconds":50.5\}'
expect_close 'a start-up that was cut short' "$(cost_of bud start total)" \
    "$(awk -v t="$before" -v s="$seconds" -v n="$(cost_of bud start seconds)" 'BEGIN { printf "%.9f", t + 100.25 + (n - s - 50.5) }')"

# --- what is refused ---
refuse() { # PATTERN OVERRIDE...
    local pattern=$1
    shift
    expect_code 2 "$CLTRAIN" train net.json --out bad --max-steps 1 "$@"
    expect_text "$pattern"
    expect_absent bad
}
refuse 'cost.per_hour' cost.per_hour=-1
refuse 'cost.per_hour' cost.per_hour=nan
refuse 'cost.per_hour' cost.per_hour=1e99
refuse 'cost.budget' cost.per_hour=1 cost.budget=-5
refuse 'cost.budget needs a price' cost.budget=5
refuse 'cost.currency: must be at most 16 bytes' cost.per_hour=1 'cost.currency="\u001b[31m"'
refuse 'cost.currency: must be at most 16 bytes' cost.per_hour=1 cost.currency=aaaaaaaaaaaaaaaaa
refuse 'cost.tags: must be at most 50 texts' cost.per_hour=1 'cost.tags=["a\u0007"]'
refuse 'cost.tags: an empty string' cost.per_hour=1 'cost.tags=[""]'
for price in x nan -1 inf 1e99 '2 '; do
    CLTRAIN_PRICE_PER_HOUR=$price refuse "CLTRAIN_PRICE_PER_HOUR is '$price'"
done
CLTRAIN_PRICE_PER_HOUR=x expect_code 2 "$CLTRAIN" train net.json --out bad --dry-run
expect_text 'CLTRAIN_PRICE_PER_HOUR'
finish
