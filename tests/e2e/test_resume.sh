#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 20 ctest-optimise: no
#
# Resuming is exact: from every step of a run with accumulation, dropout, evaluations and epochs that end inside a step, in the same
# or another folder, and with what a crash leaves behind. What would not be exact is refused.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export CLTRAIN_GEMM=simple # starts fastest

# 52 samples, 8 a step: epochs end in the middle of steps 7, 13, 20 and 26.
cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16], "activation": "gelu", "dropout": 0.2},
 "data": {"type": "synthetic", "samples": 52, "shape": [6], "classes": 3, "noise": 1.0, "micro_batch": 4, "global_batch": 8},
 "optimizer": {"learning_rate": 0.02, "clip": 1}, "schedule": {"type": "cosine", "warmup": 4},
 "train": {"steps": 30, "eval_every": 7}, "checkpoint": {"every": 1, "keep": 0}}
JSON

# as_straight RUN [STRAIGHT]: the run has the same result and metrics as the uninterrupted run.
as_straight() {
    local straight=${2:-straight} file
    for file in model.safetensors optimizer.safetensors; do
        expect_same "$straight/checkpoints/step_30/$file" "$1/checkpoints/step_30/$file"
    done
    expect_same <(numbers "$straight") <(numbers "$1")
}
# crashed RUN STEP: a copy of the uninterrupted run that ended after STEP was saved, with later metrics and half a line.
crashed() {
    rm -rf "$1" && mkdir -p "$1/checkpoints"
    cp straight/config.resolved.json "$1/"
    { cat straight/metrics.jsonl && printf '{"step":31,"update":31,"lo'; } >"$1/metrics.jsonl"
    cp -r "straight/checkpoints/step_$2" "$1/checkpoints/"
}
steps_of() { find "$1/checkpoints" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -t _ -k 2 -n | tr '\n' ' '; }

expect_code 0 "$CLTRAIN" train net.json --out straight --resume auto # nothing there: from the start
reject_text 'resumed'
expect_file straight/checkpoints/step_1/manifest.json straight/checkpoints/step_30/manifest.json

# --- from every step; in the short run: the first and last ones, and around the end of an epoch, an evaluation ---
stride=7
all_cases && stride=1
for ((step = 1; step < 30; step += stride > 1 && step == 1 ? 5 : stride)); do
    crashed run $step
    expect_code 0 "$CLTRAIN" train net.json --out run --resume auto checkpoint.every=0
    expect_text "^resumed from run/checkpoints/step_$step at step $step\$" '^done: 30 steps'
    as_straight run
done

# --- complete ---
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto
expect_text 'the run is complete' '^checkpoint: run/checkpoints/step_30$'
expect_awk 'that a run is complete is said once, before kernels are built' \
    '/^the run is complete/ { n++; at = NR } /^resumed from/ { start = NR } END { exit !(n == 1 && at < start) }' "$out"
expect_code 0 grep -q 'the run is complete' run/log.txt
reject_text 'last loss'
as_straight run

# --- ended early, twice: --max-steps does not change the schedule; the additional evaluations at both ends
# are kept ---
expect_code 0 "$CLTRAIN" train net.json --out early --max-steps 10
expect_code 0 "$CLTRAIN" train net.json --out early --resume auto --max-steps 10
expect_text 'the run is complete up to --max-steps'
expect_code 0 "$CLTRAIN" train net.json --out early --resume auto --max-steps 4 # fewer than it has made
expect_text '^resumed from early/checkpoints/step_10' 'the run is complete up to --max-steps'
expect_code 0 "$CLTRAIN" train net.json --out early --resume auto --max-steps 21
expect_code 0 "$CLTRAIN" train net.json --out early --resume auto
expect_text '^resumed from early/checkpoints/step_21 at step 21$'
grep -v '"step":10,"eval_loss"' early/metrics.jsonl >kept && mv kept early/metrics.jsonl
as_straight early

# --- into a new folder, from a step, a checkpoints folder or a run; the old one does not change ---
crashed old 13
cp -r straight/checkpoints/step_11 old/checkpoints/
cp -r old old.before
n=0
for from in straight/checkpoints/step_13 old/checkpoints $(all_cases && echo old old/); do
    n=$((n + 1))
    expect_code 0 "$CLTRAIN" train net.json --out fresh$n --resume $from checkpoint.keep=1
    expect_text 'at step 13$'
    expect_same straight/checkpoints/step_30/model.safetensors fresh$n/checkpoints/step_30/model.safetensors
    expect_same straight/checkpoints/step_30/optimizer.safetensors fresh$n/checkpoints/step_30/optimizer.safetensors
    expect_same <(numbers straight | awk -F '[:,]' '$2 > 13') <(numbers fresh$n)
done
if diff -r old old.before >/dev/null; then pass; else fail 'resuming from a folder changed it'; fi
expect_code 0 "$CLTRAIN" train net.json --out old --resume old/ # the folder itself, by name
as_straight old
expect_code 7 "$CLTRAIN" train net.json --out never --resume nowhere
expect_text 'nowhere: there is no such folder'
mkdir empty
expect_code 7 "$CLTRAIN" train net.json --out never --resume empty
expect_text 'empty holds none'
expect_absent never

# --- an earlier run is never overwritten unless asked for ---
crashed run 9
for option in '' '--resume none' '--resume straight' '--resume run/checkpoints/step_9'; do
    # shellcheck disable=SC2086 # two words or none
    expect_code 2 "$CLTRAIN" train net.json --out run $option
    expect_text "run folder 'run' holds an earlier run" '--resume auto'
done
expect_same run/metrics.jsonl <(cat straight/metrics.jsonl && printf '{"step":31,"update":31,"lo')

# --- the default folder is always the same one ---
for _ in 1 2; do expect_code 0 "$CLTRAIN" train net.json --resume auto --max-steps 2; done
expect_text '^resumed from runs/net/checkpoints/step_2'
expect_absent runs/net-2

# --- a changed config: refused with the difference, unless it changes only where, how fast and how often ---
for from in auto run/checkpoints/step_9; do
    run=run
    [ $from = auto ] || run=never
    expect_code 2 "$CLTRAIN" train net.json --out $run --resume $from optimizer.clip=2 model.dropout=0.1 data.workers=1
    expect_text 'the config has changed' '^optimizer.clip: was 1, is 2$' '^model.dropout: was 0.2, is 0.1$'
    reject_text 'data.workers'
done
expect_absent never
expect_code 2 "$CLTRAIN" train net.json --out run --resume auto train.steps=20
expect_text 'cannot become shorter' '^train.steps: was 30, is 20$' 'max-steps'
expect_code 2 "$CLTRAIN" train net.json --out run --resume auto schedule.warmup=5
expect_text 'can change only when the run becomes longer' '^schedule.warmup: was 4, is 5$'
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto data.workers=3 data.prefetch=9 checkpoint.keep=2 checkpoint.major=10 \
    checkpoint.best=true train.log_every=7 train.max_nonfinite=7
as_straight run

# --- a dry run refuses what a resume refuses, with the same words and code, and reports what a resume would
# report; it changes nothing ---
unchanged() { if diff -r run run.before >/dev/null; then pass; else fail "a dry run changed the run: $(diff -r run run.before | head -n 3)"; fi; }
# refused_alike CODE ARGUMENT...: neither the resume nor its dry run begins, for the same reason.
refused_alike() {
    local code=$1
    shift
    rm -rf run.before && cp -r run run.before
    expect_code "$code" "$CLTRAIN" train "$@" --dry-run
    unchanged
    cp "$out" dry
    expect_code "$code" "$CLTRAIN" train "$@"
    expect_same "$out" dry
}
crashed run 9
for from in '--out run --resume auto' '--out never --resume run' '--resume run/checkpoints/step_9 --out never'; do
    # shellcheck disable=SC2086 # words
    refused_alike 2 net.json $from optimizer.clip=2
    expect_text 'the config has changed' '^optimizer.clip: was 1, is 2$'
done
refused_alike 2 net.json --out run --resume auto train.steps=20
refused_alike 2 net.json --out run --resume auto schedule.warmup=5
refused_alike 2 net.json --out run --resume auto data.global_batch=16 # as many epochs as before
refused_alike 2 net.json --out run --resume auto data.samples=60
refused_alike 2 net.json --out run --resume straight # holds an earlier run
refused_alike 2 --resume straight/checkpoints/step_9 # not the newest
refused_alike 7 net.json --out never --resume nowhere
# a run that is still active in the folder: reported before anything is built
exec 8<>run/lock
echo 'process 4711 on host here' >&8
flock 8
for from in 'net.json --out run --resume auto' 'net.json --out run --resume run' '--resume run'; do
    # shellcheck disable=SC2086 # words
    refused_alike 8 $from
    expect_text "locking 'run/lock': it is held by process 4711 on host here"
    reject_text 'device' 'kernel'
done
exec 8>&-
rm run/lock
rm run/checkpoints/step_9/state.json
refused_alike 7 net.json --out run --resume auto
crashed run 9
rm -rf run.before && cp -r run run.before
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto --dry-run train.steps=40 checkpoint.best=accuracy
expect_text '^warning: resuming from .*it chose the best checkpoint by loss, and this run does so by accuracy' \
    '^would resume from run/checkpoints/step_9 at step 9$' '^the run was 30 steps long and is now 40; learning rate: from 0.0' 'nothing was trained'
expect_code 0 "$CLTRAIN" train --resume straight --dry-run
expect_text '^would resume from straight/checkpoints/step_30 at step 30$' '^the run is complete: there is no step left'
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto --dry-run --max-steps 9
expect_text '^the run is complete up to --max-steps'
expect_code 0 "$CLTRAIN" train net.json --out never --resume auto --dry-run # nothing there: from the start
reject_text 'would resume'
unchanged
expect_absent never

# --- another micro-batch of the same global batch: close to the uninterrupted run; another global batch is refused ---
# near RUN STRAIGHT: losses of steps differ by rounding only.
near() {
    local worst
    worst=$(paste <(values loss "$1/metrics.jsonl") <(values loss "$2/metrics.jsonl") | awk '
        { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 1e-5) bad++ } END { if (NR < 30 || bad) print NR " losses, " bad + 0 " differ" }')
    if [ -z "$worst" ]; then pass; else fail "$1 and $2: $worst"; fi
}
crashed run 9
expect_code 0 "$CLTRAIN" train --resume run data.micro_batch=2 --dry-run
expect_text '^a step takes 8 samples as before, now in micro-batches of 2, before of 4; results are the same except for rounding'
expect_code 0 "$CLTRAIN" train --resume run data.micro_batch=2
expect_text '^a step takes 8 samples as before, now in micro-batches of 2' '^batch .*8 samples a step, 4 times 2'
near run straight
sed 's/"micro_batch": 4, "global_batch": 8/"micro_batch": 8/' net.json >implied.json
expect_code 0 "$CLTRAIN" train implied.json --out implied
expect_code 0 "$CLTRAIN" train implied.json --out smaller --max-steps 9
expect_code 2 "$CLTRAIN" train --resume smaller data.micro_batch=16
expect_text 'its 9 steps took 8 samples each, this run takes 16 a step; give data.micro_batch=8 data.global_batch=8$'
expect_code 2 "$CLTRAIN" train --resume smaller data.micro_batch=5
expect_text 'this run takes 5 a step; give data.micro_batch=4 data.global_batch=8$'
expect_code 0 "$CLTRAIN" train --resume smaller data.micro_batch=4
expect_text '^a step takes 8 samples as before, now in micro-batches of 4, before of 8' '^batch .*8 samples a step, 2 times 4'
near smaller implied
cat >norm.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "linear", "out": 8}, {"op": "batch_norm"}, {"op": "relu"}, {"op": "linear", "out": 3}, {"op": "cross_entropy"}]},
 "data": {"type": "synthetic", "samples": 52, "shape": [6], "classes": 3, "micro_batch": 8}, "train": {"steps": 4}}
JSON
expect_code 0 "$CLTRAIN" train norm.json --out norm --max-steps 2
expect_code 0 "$CLTRAIN" train --resume norm data.micro_batch=4
expect_text '^warning: a step takes 8 samples as before, now in micro-batches of 4, before of 8, over which batch_norm takes its statistics'

# --- the learning rate and the weight decay may change; a run says from which step and records it ---
crashed run 9
expect_code 0 "$CLTRAIN" train --resume run optimizer.learning_rate=0.002 optimizer.weight_decay=0.1 --dry-run
expect_text '^learning rate: was 0.02, is 0.002 from step 10; weight decay: was 0, is 0.1 from step 10$'
expect_code 0 "$CLTRAIN" train --resume run optimizer.learning_rate=0.002
expect_text '^learning rate: was 0.02, is 0.002 from step 10$'
if grep -q '"event":"rate","step":9,.*"learning_rate_before":0.02,"learning_rate":0.002' run/metrics.jsonl; then pass; else fail 'no event rate'; fi
expect_same <(values lr straight/metrics.jsonl | awk 'NR > 9 { printf "%.4g\n", $1 / 10 }') \
    <(values lr run/metrics.jsonl | awk 'NR > 9 { printf "%.4g\n", $1 }')
crashed run 9
expect_code 0 "$CLTRAIN" train --resume run train.steps=40 optimizer.learning_rate=0.002
expect_text '^the run was 30 steps long and is now 40' '^learning rate: was 0.02, is 0.002 from step 10$'

# --- a damaged newest checkpoint: the one before is used, with a warning; the damaged one is replaced
# later ---
crashed run 20
cp -r straight/checkpoints/step_18 straight/checkpoints/step_19 run/checkpoints/
printf 'x' | dd of=run/checkpoints/step_20/model.safetensors bs=1 seek=500 conv=notrunc 2>/dev/null
rm run/checkpoints/step_19/manifest.json
cp -r run twice
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto
expect_text '^warning: checkpoint step_20 is skipped: .*model.safetensors: its content does not match' \
    '^warning: checkpoint step_19 is skipped: .*manifest.json' '^resumed from run/checkpoints/step_18 at step 18$'
as_straight run
expect_same straight/checkpoints/step_20/model.safetensors run/checkpoints/step_20/model.safetensors
rm twice/checkpoints/step_18/state.json
cp -r twice twice.before
expect_code 7 "$CLTRAIN" train net.json --out twice --resume auto
expect_text 'none of the 3 checkpoints' 'step_18' 'step_19' 'step_20'
if diff -r twice/checkpoints twice.before/checkpoints >/dev/null; then pass; else fail 'checkpoints that do not load were touched'; fi

# --- killed before the first save, with a partial save: the run begins again; killed while a step was being
# replaced: the step is restored ---
crashed run 5
mv run/checkpoints/step_5 run/checkpoints/step_5.tmp-4711
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto
reject_text 'resumed'
as_straight run
expect_absent run/checkpoints/step_5.tmp-4711
crashed run 6
mv run/checkpoints/step_6 run/checkpoints/step_6.old-4711
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto
expect_text 'it is back in place' '^resumed from run/checkpoints/step_6 at step 6$'
as_straight run

# --- what is kept: the newest, each major one, the best; a resumed run keeps the same ---
keep=(checkpoint.every=4 checkpoint.keep=2 checkpoint.major=10 checkpoint.best=true train.eval_every=3 optimizer.learning_rate=0.3
    schedule.warmup=0 schedule.type=constant model.dropout=0.5)
expect_code 0 "$CLTRAIN" train net.json --out kept "${keep[@]}"
# Checkpoints are saved at multiples of 4, at each new best, and at the end; the last two of them and the
# best are kept. 20 is the only major step among them.
want=$(grep '"eval_loss"' kept/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*"eval_loss":\([^,]*\),.*/\1 \2/' | awk '
    BEGIN { best = 1e30 } { if ($2 < best) { best = $2; at = $1; saved[$1] = 1 } }
    END { for (s = 4; s <= 30; s += 4) saved[s] = 1
        saved[30] = 1
        for (s = 30; s >= 1; s--) if (saved[s]) { if (s % 10 == 0 || s == at || n < 2) keep[s] = 1; if (!(s % 10 == 0 && s != 30) && s != at) n++ }
        for (s = 1; s <= 30; s++) if (keep[s]) printf "step_%d ", s
        print at >"best.step" }')
if [ "$(steps_of kept)" = "$want" ]; then pass; else fail "kept: $(steps_of kept), not $want"; fi
best=$(cat best.step)
if [ "$best" -lt 24 ]; then pass; else fail "the best step, $best, is among the newest anyway: choose another setting"; fi
expect_text "^saved step $best to "
expect_code 0 "$CLTRAIN" train net.json --out all "${keep[@]/checkpoint.keep=2/checkpoint.keep=0}"
mkdir -p half/checkpoints
cp all/config.resolved.json all/metrics.jsonl half/
for step in $(steps_of all | tr ' ' '\n' | sed 's/step_//'); do [ "$step" -gt 16 ] || cp -r "all/checkpoints/step_$step" half/checkpoints/; done
expect_code 0 "$CLTRAIN" train net.json --out half --resume auto "${keep[@]}"
expect_text '^resumed from half/checkpoints/step_16 at step 16$'
if [ "$(steps_of half)" = "$want" ]; then pass; else fail "kept after a resume: $(steps_of half), not $want"; fi
as_straight half kept

# --- the save of a new best fails, since files are in the way: the kept best stays, and the next better one
# replaces it ---
mapfile -t ranked < <(grep '"eval_loss"' all/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*"eval_loss":\([^,]*\),.*/\2 \1/' | sort -g | cut -d ' ' -f 2)
if [ "${ranked[1]}" -gt "$best" ] && [ "${ranked[2]}" -lt "$best" ]; then pass; else fail "the evaluations from the best on: ${ranked[*]}: choose another setting"; fi
for in_the_way in "$best" "$best ${ranked[1]}"; do
    rm -rf spoilt && mkdir -p spoilt/checkpoints
    cp all/config.resolved.json all/metrics.jsonl spoilt/
    for step in $(steps_of all | tr ' ' '\n' | sed 's/step_//'); do [ "$step" -ge "$best" ] || cp -r "all/checkpoints/step_$step" spoilt/checkpoints/; done
    for step in $in_the_way; do : >"spoilt/checkpoints/step_$step"; done
    expect_code 0 "$CLTRAIN" train net.json --out spoilt --resume auto "${keep[@]}"
    for step in $in_the_way; do expect_text "the checkpoint of step $step could not be written \(1 in a row\), training continues"; done
    left=$(wc -w <<<"$in_the_way")
    left=${ranked[$left]}
    if [ "$(steps_of spoilt)" = "$(printf 'step_%d ' "$left" 20 28 30)" ]; then pass; else fail "kept: $(steps_of spoilt), and the best one is $left"; fi
    expect_code 0 "$CLTRAIN" eval spoilt --best
    expect_code 0 grep -q "\"best_step\": $left," spoilt/checkpoints/step_30/state.json
    as_straight spoilt kept
done

# --- in another folder: the best checkpoint is copied if it lies beside the resumed one; otherwise the
# search begins again ---
eval_loss_of() { grep "\"step\":$2,.*\"eval_loss\"" "$1/metrics.jsonl" | sed 's/.*"eval_loss":\([^,]*\),.*/\1/'; }
is_best() { # RUN STEP
    expect_code 0 "$CLTRAIN" eval "$1" --best --json found.json
    expect_code 0 grep -q "\"loss\": *$(eval_loss_of kept "$2")" found.json
}
for from in near lone; do
    mkdir -p $from/checkpoints
    cp all/config.resolved.json all/metrics.jsonl $from/
    cp -r all/checkpoints/step_20 $from/checkpoints/
done
cp -r "all/checkpoints/step_$best" near/checkpoints/
expect_code 0 "$CLTRAIN" train net.json --out moved --resume near "${keep[@]}"
expect_text '^resumed from near/checkpoints/step_20' "^the best checkpoint so far, of step $best, was copied from near/checkpoints/step_$best\$"
if [ "$(steps_of moved)" = "step_$best step_28 step_30 " ]; then pass; else fail "kept in another folder: $(steps_of moved)"; fi
for file in model.safetensors optimizer.safetensors state.json; do expect_same kept/checkpoints/step_30/$file moved/checkpoints/step_30/$file; done
is_best moved "$best"
lost="^warning: the best checkpoint so far, of step $best, is not in alone/checkpoints: the search for the best one begins again"
expect_code 0 "$CLTRAIN" train net.json --out alone --resume lone "${keep[@]}" --dry-run
expect_text "$lost"
expect_code 0 "$CLTRAIN" train net.json --out alone --resume lone "${keep[@]}"
expect_text "$lost"
if [ "$(steps_of alone)" = 'step_21 step_28 step_30 ' ]; then pass; else fail "kept in another folder: $(steps_of alone)"; fi
for file in model.safetensors optimizer.safetensors; do expect_same kept/checkpoints/step_30/$file alone/checkpoints/step_30/$file; done
is_best alone 21
printf x >>near/checkpoints/step_"$best"/state.json # a damaged one does not come along
expect_code 0 "$CLTRAIN" train net.json --out healthy --resume near "${keep[@]}"
expect_text "^warning: the best checkpoint so far, of step $best, is not in healthy/checkpoints, copying 'near/checkpoints/step_$best': .*state.json: has"
if [ "$(steps_of healthy)" = 'step_21 step_28 step_30 ' ]; then pass; else fail "kept in another folder: $(steps_of healthy)"; fi
expect_code 7 "$CLTRAIN" eval lone --best
expect_text "its best evaluation was after step $best, whose checkpoint is not in 'lone/checkpoints'; it may be in the folder where the run was saved before"
crashed run 9
expect_code 7 "$CLTRAIN" eval run --best
expect_text "after step 7, whose checkpoint is not in 'run/checkpoints'; a training with checkpoint.best, for instance loss, keeps it"

# --- other optimizers: one moment, none ---
n=0
for optimizer in 'optimizer.type=sgd optimizer.momentum=0.9 optimizer.nesterov=true' 'optimizer.type=sgd'; do
    n=$((n + 1))
    if [ $n -gt 1 ] && ! all_cases; then break; fi
    # shellcheck disable=SC2086 # words
    expect_code 0 "$CLTRAIN" train net.json --out sgd$n $optimizer
    mkdir -p part$n/checkpoints
    cp sgd$n/config.resolved.json part$n/
    cp -r sgd$n/checkpoints/step_16 part$n/checkpoints/
    cp sgd$n/metrics.jsonl part$n/
    # shellcheck disable=SC2086 # words
    expect_code 0 "$CLTRAIN" train net.json --out part$n --resume auto $optimizer
    expect_same sgd$n/checkpoints/step_30/model.safetensors part$n/checkpoints/step_30/model.safetensors
    expect_same <(numbers sgd$n) <(numbers part$n)
done
finish
