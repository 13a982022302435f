#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 35
#
# The command line itself: help, unknown words with the nearest name, options, messages about configs, output without control
# characters, signals and their exit codes, benchmark records and their comparison. What single commands compute is tested elsewhere.
. "$(dirname "$0")/lib.sh"

# --- words, options, help ---
expect_code 2 "$CLTRAIN"
expect_text 'usage: cltrain COMMAND'
expect_code 0 "$CLTRAIN" help
expect_code 0 "$CLTRAIN" --help
expect_code 0 "$CLTRAIN" --version
expect_text '^cltrain [0-9]'
expect_code 2 "$CLTRAIN" trian
expect_text "unknown command 'trian'; did you mean 'train'"
expect_code 2 "$CLTRAIN" -x
commands=$("$CLTRAIN" help | sed -n '/^usage/,/^first steps/s/^  \([a-z]*\)  .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 20 ] && pass || fail "help lists too few commands: $commands"
for command in $commands; do
    [ "$command" != help ] || continue
    expect_code 0 "$CLTRAIN" $command --help
    expect_text "cltrain $command"
done
for part in gemm ops memory step build loader allreduce; do
    expect_code 0 "$CLTRAIN" bench $part --help
done
for absent in 'help' 'bench --help' 'verify --help' 'man'; do
    # shellcheck disable=SC2086
    expect_code 0 "$CLTRAIN" $absent
    reject_text 'later release'
done
expect_code 2 "$CLTRAIN" train
expect_text 'missing argument'
expect_code 2 "$CLTRAIN" train a.json b.json
expect_text "unexpected argument 'b.json'"
expect_code 2 "$CLTRAIN" train a.json --max-step 3
expect_text "unknown option '--max-step'; did you mean '--max-steps'"
expect_code 2 "$CLTRAIN" train a.json --max-steps=ten
expect_text "'ten' is not an integer"
expect_code 2 "$CLTRAIN" train a.json --max-steps 0
expect_code 2 "$CLTRAIN" train a.json --out
expect_text 'needs a value'
expect_code 2 "$CLTRAIN" train a.json --dry-run=yes
expect_text 'takes no value'
expect_code 2 "$CLTRAIN" train a.json --out x --out y
expect_text 'given twice'
expect_code 2 "$CLTRAIN" train a.json --resume
expect_text 'option --resume needs a value: auto'
expect_code 2 "$CLTRAIN" generate
expect_text 'cltrain generate RUN'
expect_code 2 "$CLTRAIN" eval a.json
expect_text 'cltrain eval RUN' '--checkpoint RUN or --init PATH'
expect_code 2 "$CLTRAIN" verify --mode wrong
expect_code 2 "$CLTRAIN" verify --shard 4/4
expect_text '0 <= I < N'
expect_code 2 "$CLTRAIN" verify --caps lokal
expect_code 2 "$CLTRAIN" bench gem
expect_text "did you mean 'gemm'"
expect_code 2 "$CLTRAIN" bench gemm --sizes 12x3
expect_code 2 "$CLTRAIN" bench gemm --backend simpel
expect_text "did you mean 'simple'"
expect_code 2 "$CLTRAIN" config
expect_code 2 "$CLTRAIN" config --print
expect_code 2 "$CLTRAIN" config --schema --markdown

# --- configs ---
cat >net.json <<'JSON'
{
  "model": {"type": "mlp", "hidden": [8], "outputs": 1, "loss": "mse"},
  "data": {"type": "synthetic", "samples": 64, "shape": [4], "target_shape": [1], "classes": 0, "micro_batch": 8},
  "train": {"epochs": 2}
}
JSON
sed -e 's/"hidden"/"hiden"/' -e 's/"epochs": 2/"epochs": "2", "seeds": 1/' net.json >bad.json
expect_code 2 "$CLTRAIN" train bad.json --out run-bad
expect_text "bad.json:2:.*model.hiden: unknown key; did you mean 'model.hidden'" 'bad.json:4:.*train.epochs: expected a number' \
    "bad.json:4:.*train.seeds: unknown key; did you mean 'train.seed'"
expect_absent run-bad runs
expect_code 2 "$CLTRAIN" train missing.json
expect_text 'missing.json'
expect_absent runs
expect_code 0 "$CLTRAIN" config --print net.json train.seed=5
expect_text '"train.seed": "override"' '"model.type": "file"' '"train.epochs": "file"' '"optimizer.type": "default"'
cp "$out" resolved.json
expect_code 0 "$CLTRAIN" config --print resolved.json
expect_code 0 "$CLTRAIN" config --schema
expect_awk 'the type of model.layers' '/"key": "model.layers"/ { n = NR } n && NR == n + 1 { exit !/"integer or list of layers"/ }' "$out"
expect_code 0 "$CLTRAIN" config --markdown
expect_same "$out" "$CLTRAIN_SOURCE_DIR/docs/config.md"
expect_code 0 "$CLTRAIN" version --json
expect_text '"version"' '"opencl_loader"'

# --- what needs a device ---
"$CLTRAIN" devices >/dev/null 2>&1
if [ $? -eq 4 ]; then
    note_skip 'no OpenCL device: training, benchmarks and signals'
    finish
fi
expect_code 0 "$CLTRAIN" devices --json
expect_text '"spec": "0:0"' '"caps"'
expect_code 4 "$CLTRAIN" train net.json --device 'no such device'
expect_absent runs/net
expect_code 0 "$CLTRAIN" train net.json --dry-run
expect_absent runs
expect_code 0 "$CLTRAIN" train net.json
expect_text '^step 1/16 ' '^step 16/16 ' '^eval at step 16' 'checkpoint: runs/net/checkpoints/step_16'
escape=$(printf '\033')
return=$(printf '\r')
reject_text "$escape" "$return"
expect_file runs/net/metrics.jsonl runs/net/config.resolved.json
expect_code 0 "$CLTRAIN" train net.json
expect_file runs/net-2/metrics.jsonl
expect_same runs/net/checkpoints/step_16/model.safetensors runs/net-2/checkpoints/step_16/model.safetensors
expect_code 0 "$CLTRAIN" eval net.json --checkpoint runs/net --json eval.json
expect_text '^eval'
expect_file eval.json
expect_code 0 "$CLTRAIN" eval net.json --init runs/net/checkpoints/step_16/model.safetensors --json -
expect_text '"samples": 64'

# --- a result that could not be saved is refused before anything is measured ---
mkdir folder
for long in 'tune net.json --json' 'tune --json' 'bench gemm --json' 'bench ops --json' 'bench memory --json' 'bench step net.json --json' \
    'bench step net.json --trace' 'verify --json' 'verify --junit' 'eval net.json --checkpoint runs/net --json'; do
    for place in no/such/file folder; do
        # shellcheck disable=SC2086
        expect_code 8 "$CLTRAIN" $long $place
        expect_text "'$place"
        reject_text '^device ' '^eval' 'passed'
    done
done
expect_absent folder/* no
for part in gemm memory ops 'step net.json'; do
    # shellcheck disable=SC2086
    expect_code 2 "$CLTRAIN" bench $part --compare no/such/record
    reject_text '^device '
done

# --- benchmark records ---
expect_code 0 "$CLTRAIN" bench step net.json --steps 3 --warmup 1 --json step.json
expect_file step.json
sed -E 's/"step_ms": *[0-9.e+-]+/"step_ms": 1e9/' step.json >slow.json
expect_code 0 "$CLTRAIN" bench step net.json --steps 3 --warmup 1 --compare slow.json
expect_text '0\.00x time  step_ms'
sed -E 's/"step_ms": *[0-9.e+-]+/"step_ms": 1e-9/' step.json >fast.json
expect_code 1 "$CLTRAIN" bench step net.json --steps 3 --warmup 1 --compare fast.json
expect_text 'SLOWER'
expect_code 0 "$CLTRAIN" bench gemm --sizes 16,5x7x9 --backend simple --seconds 0.01 --json gemm.json
expect_text '5 +7 +9 +tn'
expect_awk 'a gemm record needs its keys' '/"fma_peak_gflops"/ { a = 1 } /"stream_gbs"/ { b = 1 } /"rows"/ { c = 1 } /"gflops"/ { n++ }
    END { exit !(a && b && c && n == 6) }' gemm.json
expect_code 2 "$CLTRAIN" bench gemm --sizes 16 --backend simple --seconds 0.01 --compare step.json
expect_code 2 "$CLTRAIN" bench gemm --sizes 32 --backend simple --seconds 0.01 --compare gemm.json
expect_text 'none of its measurements was made in this run'
for odd in '{"bench": "gemm"}' '{"bench": "gemm", "rows": [3, [1], null, "x"]}' '[]'; do # somebody else's file
    echo "$odd" >odd.json
    expect_code 2 "$CLTRAIN" bench gemm --sizes 16 --backend simple --layout nn --seconds 0.01 --compare odd.json
done
expect_code 2 "$CLTRAIN" bench gemm --sizes ''

# --- signals: a run that would take hours ---
start_run() { # FOLDER: in the background, until its first step is told
    "$CLTRAIN" train net.json --out "$1" train.steps=4000000 checkpoint.keep=1 >"$1.log" 2>&1 </dev/null &
    run=$!
    await_from $run grep -q '^step 1/' "$1.log"
}
for signal in TERM USR2; do
    start_run run-$signal
    kill -$signal $run
    wait $run
    got=$?
    cp run-$signal.log "$out"
    if [ $got -eq 75 ]; then pass; else fail "SIG$signal: code $got, expected 75"; fi
    expect_text 'interrupted, resumable: stopped after step [0-9]+ of 4000000' 'saved step [0-9]+'
    expect_file run-$signal/checkpoints/step_*/model.safetensors
done

# a command that has nothing to save ends at once
"$CLTRAIN" bench memory --seconds 600 >memory.log 2>&1 </dev/null &
run=$!
# has_worked PROCESS: whether it has used half a second of the processor.
has_worked() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); exit !($12 + $13 >= hz / 2) }' "/proc/$1/stat"; }
takes_signals() { grep -qx signals /proc/"$1"/task/*/comm; } # PROCESS
await_from $run takes_signals $run
await_from $run has_worked $run
kill -INT $run
wait $run
got=$?
if [ $got -eq 130 ]; then pass; else fail "SIGINT: code $got, expected 130"; fi
expect_code 0 grep -x 'cltrain: ended by SIGINT' memory.log

# an option that is longer than the column of options has its text on the next line
expect_code 0 "$CLTRAIN" export --help
expect_text '^  --format hf\|gguf\|peft\|safetensors$' '^ {27}hf: a folder with config.json' '^  --out PATH +the folder'

# --- the demo, shortened ---
expect_code 0 "$CLTRAIN" demo --steps 300 --out demo-run
expect_text 'unigram entropy' 'validation loss [0-9.]+ nats per byte; a model of only byte frequencies' 'what to try next' \
    '^a sample that begins with "This program is free "' '^This program is free .'
expect_file demo-run/metrics.jsonl
# The commands that it suggests work as they are printed, program included.
cp "$out" demo.txt
for command in generate report; do
    line=$(sed -n "s/^    \(.* $command demo-run.*\)/\1/p" demo.txt)
    if [ -n "$line" ]; then expect_code 0 bash -c "$line"; else fail "the demo does not advise $command"; fi
done
config=$(sed -n 's/^    .* train \(.*mlp-mnist.json\)$/\1/p' demo.txt)
if [ -f "$config" ]; then pass; else fail "the demo names '$config', which is not there"; fi
# --- output that cannot be written is an error, also if the text is longer than a buffer ---
if [ -c /dev/full ]; then
    printf '{"config": "net.json", "keys": {"optimizer.learning_rate": {"values": [0.1, 0.01]}}, "metric": "loss"}' >two.sweep.json
    for command in man 'config --markdown' version 'completion bash' 'top --once' 'sweep two.sweep.json --dry-run'; do
        # shellcheck disable=SC2086
        "$CLTRAIN" $command >/dev/full 2>"$out"
        code=$?
        if [ $code -eq 8 ]; then pass; else fail "'$command' to a full device: code $code"; fi
    done
    expect_text 'writing to the standard output'
fi

finish
