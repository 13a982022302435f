#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 10 ctest-optimise: no
#
# What a user sees on a terminal of any width, in a pipe, without colours and with a name in UTF-8: lines that fit, a history of
# losses above one live line, a start-up table in plain words, progress of long work, the next commands; and log.txt. Uses a real
# pseudo terminal.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
screen=$CLTRAIN_BUILD_DIR/tests/screen_of
[ -x "$screen" ] || skip_all 'screen_of was not built'
clean_home
export CLTRAIN_GEMM=simple TERM=xterm
unset NO_COLOR CLICOLOR CLICOLOR_FORCE

cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [64, 64]},
 "data": {"type": "synthetic", "samples": 512, "shape": [16], "classes": 4, "noise": 1, "micro_batch": 32, "global_batch": 64},
 "optimizer": {"learning_rate": 0.001, "clip": 1}, "schedule": {"type": "cosine"},
 "train": {"steps": 400, "eval_every": 200, "log_every": 100}}
JSON
widest() { awk '{ if (length($0) > w) w = length($0) } END { print w + 0 }' "$@"; }
# escapes FILE: the escape sequences in the output, each kind once.
escapes() { grep -o -a -P '\x1b\[[0-9;]*[A-Za-z]|\r(?!\n|$)' "$1" | sed -e 's/\r/CR/' -e $'s/\033/ESC/' | sort -u | tr '\n' ' '; }

# --- every step line fits, with loss and speed; the history stays; nothing is torn ---
for columns in 60 80 250; do
    began[columns]=$(date +%s)
    expect_code 0 "$screen" -c $columns -o raw$columns "$CLTRAIN" train net.json --out w$columns
    over[columns]=$(date +%s)
    grep '^step [0-9]' "$out" >steps
    if [ "$(sed 's/^step \([0-9]*\).*/\1/' steps | tr '\n' ' ')" = '1 100 200 300 400 ' ]; then pass; else fail "$columns columns: the history is not whole"; fi
    if [ "$(grep -c '| loss [0-9.]* | [0-9.]*k\{0,1\} samples/s' steps)" -eq 5 ]; then pass; else fail "$columns columns: loss and speed are not in every line"; fi
    if [ "$(widest steps)" -le $columns ] && [ "$(widest "$out")" -le $columns ]; then pass; else fail "$columns columns: a line is wider"; fi
    expect_text '^eval at step 200 ' '^eval at step 400 ' '^device +' '^  evaluate '
    reject_text '<escape' '<control' 'kernels 1' '\] \| loss' # no live line is left
done
grep -q 'gnorm' steps && pass || fail 'a wide terminal shows the norm'
expect_code 0 "$screen" -c 250 -o raw_long "$CLTRAIN" train net.json train.steps=6000 train.eval_every=0 --out long # the bar moves ten times a second
grep -a -q $'\r.*\[=*>* *\] | loss' raw_long && pass || fail 'a wide terminal shows no bar'
case $(escapes raw80) in *'ESC[K'*) pass ;; *) fail 'a live line is rewritten in place' ;; esac
grep -a -q $'\033\[1m' raw80 && pass || fail 'a terminal shows colours'

# --- without train.log_every a fast net has at most two lines a second, in the log too; metrics.jsonl has every step ---
sed 's/, "log_every": 100//' net.json >plain.json
expect_code 0 "$screen" -c 80 "$CLTRAIN" train plain.json train.steps=3000 train.eval_every=0 --out paced
for lines in "$out" paced/log.txt; do
    grep -o 'step [0-9]*/3000 ' "$lines" >paced.steps
    expect_awk "$lines: its lines begin and end as the training does" 'NR == 1 { first = $2 } END { exit !(first == "1/3000" && $2 == "3000/3000") }' paced.steps
    n=$(wc -l <paced.steps)
    expect_awk "$lines: more than two lines a second" \
        "match(\$0, /\"time\":[0-9.]+/) && /\"update\":/ { at = substr(\$0, RSTART + 7, RLENGTH - 7) + 0; if (!begin) begin = at }
         END { exit !($n <= 3 + 2 * (at - begin)) }" paced/metrics.jsonl
done
[ "$(grep -c '"update":' paced/metrics.jsonl)" -eq 3000 ] && pass || fail 'metrics.jsonl has other steps'
expect_code 0 "$CLTRAIN" train plain.json train.steps=3000 train.eval_every=0 train.log_every=10 --out given
[ "$(grep -c '^step ' "$out")" -eq 301 ] && pass || fail 'train.log_every has lost its meaning'

# --- a window whose width changes ---
# After the change the run makes thousands of further steps.
guarded "$screen" -c 120 -w 'step 100/' -r 64 -x 'cp narrower/metrics.jsonl changed' \
    "$CLTRAIN" train net.json train.steps=4000000 train.eval_every=0 --out narrower >"$out" 2>&1 </dev/null &
process=$!
await_from $process test -s changed
at=$(grep -c '"update":' narrower/metrics.jsonl) # which is written once a second, so that more steps than these were made before the change
await_from $process has_updates narrower $((at + 1))
from=$(grep -c '"update":' narrower/metrics.jsonl)
await_from $process has_updates narrower $((from + 3000))
touch narrower/STOP
wait $process
code=$?
if [ $code -eq 75 ]; then pass; else fail "stopped with code $code"; fi
awk -v from="$from" '/^step [0-9]+\// { split($2, at, "/"); if (at[1] > from) print }' "$out" >steps
if [ "$(wc -l <steps)" -ge 10 ]; then pass; else fail 'there are no later steps'; fi
if [ "$(widest steps)" -le 64 ]; then pass; else fail 'the new width is not noticed'; fi

# --- plain words: no hashes, levels or internal terms, the device first; log.txt has everything ---
cp w80/log.txt log80
expect_code 0 "$screen" -c 120 "$CLTRAIN" train net.json --out words --max-steps 1
head -n 1 "$out" | grep -q '^device ' && pass || fail 'the device is not named first'
reject_text 'choices' '[0-9a-f]{12}' 'D1' 'problems tuned' 'programs' 'cltrain tune'
expect_text '^batch +64 samples a step, 2 times 32' '^steps +400, 50 times through the training data' \
    '^optimizer +adamw, learning rate 0.001 \(cosine\), gradients clipped to norm 1' \
    '^memory .* on the device' '^run folder +words, saved every 15 minutes and at the end'
yes 'to be or not to be' | head -n 4000 >text.txt
cat >gpt.json <<'JSON'
{"model": {"type": "gpt", "layers": 1, "heads": 2, "channels": 16, "context": 16}, "data": {"type": "text", "path": "text.txt", "micro_batch": 4},
 "train": {"steps": 3}}
JSON
expect_code 0 "$CLTRAIN" train gpt.json --out gpt
expect_text 'text: 68400 bytes, 90% of .*text.txt.*, in sequences of 16' "^  sample +$CLTRAIN generate gpt --prompt 'The '\$"
reject_text 'sequences of 16 in'
expect_text '^step .* tok/s'
# The three values of a sample are not counted as tokens.
expect_code 0 "$CLTRAIN" train net.json model.outputs=3 model.loss=mse data.target_shape=[3] data.classes=0 train.steps=2 train.eval_every=0 --out three
expect_text '^step .* samples/s'
reject_text 'tok/s'

# --- log.txt: date and time of each line, in order; phases, steps, evaluations, saves ---
if grep -v -q -E '^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[+-][0-9]{4} ' log80; then fail 'a line of log.txt has no time'; else pass; fi
cp log80 "$out"
expect_text ' testing what the device can do$' ' building kernels(, once on this machine)?$' ' tuning +.* choices ' ' determinism +D1' ' step 1/400 \| loss' \
    ' step 300/400 \| loss .* gnorm' ' eval at step 200 \| loss' ' saved step 400 to w80/checkpoints/step_400 \(.*, final\)$' ' the end, after '
reject_text $'\033' $'\r'
if sort -c <(cut -c1-19 log80); then pass; else fail 'the times of log.txt are not in order'; fi
from=$(date -d "$(head -n 1 log80 | cut -d ' ' -f 1)" +%s)
if [ "$from" -ge "${began[80]}" ] && [ "$from" -le "${over[80]}" ]; then pass; else fail 'log.txt does not begin when the run did'; fi

# --- pipes, TERM=dumb, NO_COLOR, --color ---
"$CLTRAIN" train net.json --out pipe >pipe.txt 2>&1
if [ -z "$(escapes pipe.txt)" ]; then pass; else fail "a pipe gets $(escapes pipe.txt)"; fi
cp pipe.txt "$out"
expect_text '^step 100/400 \| loss .* gnorm' "^  longer +$CLTRAIN train --resume pipe train.steps=800\$"
expect_code 0 env TERM=dumb "$screen" -c 80 -o dumb.raw "$CLTRAIN" train net.json --out dumb
if [ -z "$(escapes dumb.raw)" ]; then pass; else fail "TERM=dumb gets $(escapes dumb.raw)"; fi
expect_text '^step 400/400 '
colours() { if grep -a -q $'\033\[[0-9;]*m' "$1"; then echo yes; else echo no; fi; }
wants_colours() { # YES OR NO, WHAT
    if [ "$(colours it.raw)" = "$1" ]; then pass; else fail "colours with $2: not $1"; fi
}
short=(train net.json train.steps=1 train.eval_every=0)
wrong=("$screen" -c 80 -o it.raw "$CLTRAIN" train absent.json) # errors have a colour, too
expect_code 2 "${wrong[@]}" && wants_colours yes 'a terminal'
NO_COLOR=1 expect_code 2 "${wrong[@]}" && wants_colours no NO_COLOR
NO_COLOR='' expect_code 2 "${wrong[@]}" && wants_colours yes 'an empty NO_COLOR'
CLICOLOR=0 expect_code 2 "${wrong[@]}" && wants_colours no CLICOLOR=0
TERM=dumb expect_code 2 "${wrong[@]}" && wants_colours no TERM=dumb
expect_code 2 "${wrong[@]}" --color never && wants_colours no '--color never'
"$CLTRAIN" train absent.json --color=always 2>it.raw || wants_colours yes '--color always'
CLICOLOR_FORCE=1 "$CLTRAIN" train absent.json 2>it.raw || wants_colours yes CLICOLOR_FORCE
"$CLTRAIN" train absent.json 2>it.raw || wants_colours no 'a file'
expect_code 2 "$CLTRAIN" "${short[@]}" --color blue
expect_text "--color: 'blue' is not auto, always or never"

# --- a run folder whose name contains escape sequences or is not ASCII; the commands can be pasted into a shell ---
name=$'r\303\274n \033[31m it\'s'
expect_code 0 "$screen" -c 60 -o it.raw "$CLTRAIN" "${short[@]}" --color never --out "$name"
if [ "$(colours it.raw)" = no ]; then pass; else fail 'the name of a folder steers the terminal'; fi
expect_code 0 "$CLTRAIN" "${short[@]}" --out "it's here"
sed -n 's/^  longer *//p' "$out" >command.sh
expect_code 0 bash command.sh
expect_text '^step 2/2 '

# --- progress of long work: a start with cold caches, in a pipe; data prepare leaves no live line and prints what to do next ---
POCL_CACHE_DIR=$work/cold expect_code 0 "$screen" -c 72 -o it.raw "$CLTRAIN" "${short[@]}" --out cold
grep -a -q 'building kernels.* [0-9]*/[0-9]* | ' it.raw && pass || fail 'no progress while kernels were built'
reject_text 'building kernels'
# Commands whose standard output is their result show the same on a terminal, and nothing of it in a pipe.
POCL_CACHE_DIR=$work/cold_text expect_code 0 "$screen" -c 72 -o it.raw "$CLTRAIN" generate gpt --prompt 'to be' --max-new 8
grep -a -q 'building kernels' it.raw && pass || fail 'generate: no progress while kernels were built'
reject_text 'building kernels'
expect_text '^to be' '^8 tokens in '
row=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16
echo $row >one.csv
POCL_CACHE_DIR=$work/cold_classes expect_code 0 "$screen" -c 72 -o it.raw "$CLTRAIN" predict w80 one.csv
grep -a -q 'building kernels' it.raw && pass || fail 'predict: no progress while kernels were built'
reject_text 'building kernels'
# Samples that arrive one by one: the second one is sent when the progress after the first has been seen.
mkfifo samples
{ echo $row; await test -e seen; echo $row; } >samples &
feeder=$!
expect_code 0 "$screen" -c 72 -w '| 1 sample' -x 'touch seen' sh -c "'$CLTRAIN' predict w80 - --out classes.csv <samples"
wait $feeder
expect_text '^2 samples predicted .* written to classes.csv'
reject_text 'predicting \|'
POCL_CACHE_DIR=$work/cold_pipe "$CLTRAIN" predict w80 one.csv >rows.csv 2>told || fail "predict: code $?"
if grep -q 'building kernels' rows.csv told; then fail 'predict: progress among the results'; else pass; fi
expect_code 0 "$screen" -c 80 -o it.raw "$CLTRAIN" data prepare text.txt --out shards --train-bpe 300
grep -a -q 'tokenising' it.raw && pass || fail 'data prepare shows no progress'
reject_text 'choosing merges' 'tokenising [0-9]'
expect_text "^  $CLTRAIN train shards/gpt.json\$"
tail -n 1 "$out" >command.sh
expect_code 0 bash -c "$(tail -n 1 command.sh) --dry-run"

# --- tables: columns are left out or wrapped, never words cut in two ---
expect_code 0 "$screen" -c 60 "$CLTRAIN" devices
if [ "$(widest "$out")" -le 60 ] && ! grep -q -E '^[^ ]' <(sed 1d "$out"); then pass; else fail 'devices: a device is not one block'; fi
expect_code 0 "$screen" -c 60 "$CLTRAIN" bench gemm --sizes 16 --seconds 0.01 --layout nt
expect_text '^ +m +n +k +layout +backend .*speed$' '^ +16 +16 +16 +nt +simple .* GFLOP/s$'
expect_code 0 "$screen" -c 60 "$CLTRAIN" bench ops -t 'relu.gpt2*' --seconds 0.001
expect_text '^case +direction +ms +stream' '^relu.gpt2 +backward '
expect_code 0 "$screen" -c 80 "$CLTRAIN" tune net.json --seconds 2 --caps=-prefetch
expect_text '^problem +default +ms +fastest +ms +speed-up$' '^N?T?.* m=32 n=[0-9]+ k=[0-9]+.*x$'
if [ "$(widest <(grep -E '^(problem|[NT][NT] |f32)' "$out"))" -le 80 ]; then pass; else fail 'tune: a row is wider than the terminal'; fi
finish
