#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 10 ctest-optimise: no
#
# Looking at a run: event files for TensorBoard, written during training and after the run was killed and resumed. With
# CLTRAIN_TEST_TENSORBOARD=PYTHON, a Python with the package tensorboard, TensorBoard's own readers compare them with metrics.jsonl.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'

net mlp 'model.hidden=[8]' 'data.shape=[4]' data.classes=3 data.samples=64 train.steps=20 train.eval_every=10 checkpoint.every=5 >small.json
event_files() { find "$1" -name 'events.out.tfevents.*' | sort; }

# --- off by default; training computes the same with and without ---
expect_code 0 "$CLTRAIN" train small.json --out runs/plain
if [ -z "$(event_files runs/plain)" ]; then pass; else fail 'an event file nobody asked for'; fi
expect_code 0 "$CLTRAIN" train small.json log.tensorboard=true log.histograms=5 --out runs/board
file=$(event_files runs/board)
if [ "$(wc -l <<<"$file")" -eq 1 ]; then pass; else fail "one session, one file: $file"; fi
expect_same runs/plain/checkpoints/step_20/model.safetensors runs/board/checkpoints/step_20/model.safetensors
cp "$file" content
for tag in brain.Event:2 train/loss train/lr eval/accuracy speed/step_ms device/memory_bytes _hparams_/experiment \
    _hparams_/session_start_info _hparams_/session_end_info optimizer.learning_rate config events gradients/fc1.weight parameters/fc1.bias; do
    if grep -q -a -F "$tag" content; then pass; else fail "the event file has no $tag"; fi
done

# --- a profile ends with what to change, the viewer and the layers ---
expect_code 0 "$CLTRAIN" train small.json --profile --out runs/profile
expect_text '^busiest: [a-z_]+ [0-9]+ %' '^device: busy [0-9]+ % of a step of [0-9.]+ ms; idle' '^change: ' \
    '^look at it: open runs/profile/trace.json at ui.perfetto.dev$'
if [ "$(grep -c 'change: ' "$out")" -eq 1 ] && ! grep -q '^advice:' "$out"; then pass; else fail 'the advice stands there twice'; fi
expect_awk 'profile.txt begins with the summary and has a column of layers' \
    'NR == 1 { good = /^busiest: / } / layer / { column = 1 } / fc1\+act1 / { layer = 1 } END { exit !(good && column && layer) }' runs/profile/profile.txt
expect_code 0 grep -q '"layer":"fc1+act1"' runs/profile/trace.json
expect_code 0 grep -q '"layer": "fc1+act1"' runs/profile/profile.json

# --- sample texts during training: on the console, in log.txt, metrics.jsonl and for TensorBoard; training computes the same bits
# ---
awk 'BEGIN { for (i = 0; i < 300; i++) printf "%d bottles of <b>beer</b> on the wall;\n", i % 17 }' >text.txt
net gpt data.path=text.txt data.tokenizer=bytes train.steps=20 >gpt.json
expect_code 0 "$CLTRAIN" train gpt.json --out runs/quiet
expect_code 0 "$CLTRAIN" train gpt.json log.sample_every=10 log.sample_prompt='9 bottles' log.sample_tokens=12 log.tensorboard=true --out runs/sample
expect_text '^sample of step 10: 9 bottles' '^sample of step 20: 9 bottles'
expect_same runs/quiet/checkpoints/step_20/model.safetensors runs/sample/checkpoints/step_20/model.safetensors
expect_same <(values loss runs/quiet/metrics.jsonl) <(values loss runs/sample/metrics.jsonl)
if [ "$(grep -c '"event":"sample","step":[12]0,.*"prompt":"9 bottles","text":' runs/sample/metrics.jsonl)" -eq 2 ]; then pass; else fail 'two events'; fi
expect_code 0 grep -q 'sample of step 10: 9 bottles' runs/sample/log.txt
expect_code 0 grep -q -a 'eval/perplexity' "$(event_files runs/sample)"
expect_code 0 grep -q -a '    9 bottles' "$(event_files runs/sample)"
expect_code 2 "$CLTRAIN" train small.json log.sample_every=10 --out runs/never
expect_text 'log.sample_every: only a language model \(gpt\) writes texts'
expect_code 2 "$CLTRAIN" train small.json log.histograms=10 --out runs/never
expect_text 'log.histograms: .*set log.tensorboard true'
expect_absent runs/never

# --- killed, resumed, killed, stopped: a file for each session, in the order of their names ---
options=(small.json train.steps=4000000 checkpoint.every=20 log.tensorboard=true --out runs/killed)
resume=()
newest() { ls runs/killed/checkpoints 2>/dev/null | sed -n 's/^step_\([0-9]*\)$/\1/p' | sort -n | tail -n 1; }
has_saved_more_than() { [ "$(newest)" != "$1" ]; }
for signal in KILL KILL TERM; do
    before=$(newest)
    "$CLTRAIN" train "${options[@]}" "${resume[@]}" >"$out" 2>&1 &
    trainer=$!
    await_from $trainer has_saved_more_than "$before"
    kill -$signal $trainer
    wait $trainer 2>/dev/null
    resume=(--resume auto)
done
expect_code 0 "$CLTRAIN" train "${options[@]}" --resume auto --max-steps $(($(newest) + 100))
if [ "$(event_files runs/killed | wc -l)" -eq 4 ]; then pass; else fail "four sessions, four files: $(event_files runs/killed)"; fi

if [ -n "${CLTRAIN_TEST_TENSORBOARD:-}" ]; then
    expect_code 0 "$CLTRAIN_TEST_TENSORBOARD" "$CLTRAIN_SOURCE_DIR/tests/e2e/tensorboard_check.py" runs/board runs/sample runs/killed
else
    note_skip 'CLTRAIN_TEST_TENSORBOARD names no python with TensorBoard: its own readers were not asked'
fi
finish
