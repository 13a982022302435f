#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 12 ctest-optimise: no
#
# What a newcomer does with a trained model: one path is enough for eval, generate, export and --resume,
# from any folder, also after data or run were moved; a finished run is extended; an evaluation says what it
# evaluated, in units that can be compared.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export CLTRAIN_GEMM=simple # starts fastest
clean_home

# --- needs no device: missing files are reported ---
expect_code 2 "$CLTRAIN" eval
expect_text 'cltrain eval RUN'
expect_code 2 "$CLTRAIN" train
expect_text 'cltrain train CONFIG' 'cltrain train --resume RUN'
expect_code 2 "$CLTRAIN" train --resume auto
expect_text '--resume RUN names the run folder'
expect_code 7 "$CLTRAIN" train --resume nowhere
expect_text 'nowhere: there is no such folder'
expect_code 7 "$CLTRAIN" eval --checkpoint nowhere
printf '{"data": {"type": "text", "path": "my.txt"}}' >nomodel.json
expect_code 2 "$CLTRAIN" train nomodel.json
expect_text 'model.type: required but missing; valid: mlp\|graph\|gpt\|llama\|bert\|resnet\|cnn3d\|unet3d; or start from weights that say it: --init FOLDER'
expect_code 7 "$CLTRAIN" train nomodel.json --init nomodel.json
expect_text "'nomodel.json' is a JSON file without weights; name its folder"
expect_code 2 "$CLTRAIN" export somewhere
expect_text '--out (PATH|FILE)'

"$CLTRAIN" devices >/dev/null 2>&1
if [ $? -eq 4 ]; then
    note_skip 'no OpenCL device: training and evaluating'
    finish
fi

# json KEY FILE: a number of a JSON file.
json() { sed -n -E "s/^ *\"$1\": ([-0-9.e+]+),?$/\1/p" "$2" | head -n 1; }
# expect_near WHAT A B: equal to 1e-9.
expect_near() {
    if awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && b != "" && d <= 1e-9 * (b < 0 ? -b : b)) }'; then
        pass
    else
        fail "$1: $2 is not $3"
    fi
}

# --- a small language model on bytes, in the folder `home` ---
mkdir -p place/data other && cd place || exit 1
awk 'BEGIN { for (i = 0; i < 600; i++) printf "%s the %d cat sat on %d mats.\n", (i % 3 ? "and" : "Then"), i % 7, i % 5 }' >data/cats.txt
cat >gpt.json <<'JSON'
{"model": {"type": "gpt", "layers": 1, "heads": 2, "channels": 16, "context": 16},
 "data": {"type": "text", "path": "data/cats.txt", "micro_batch": 8},
 "optimizer": {"type": "adamw", "learning_rate": 0.01},
 "train": {"steps": 20}, "checkpoint": {"every": 10, "keep": 0}}
JSON
expect_code 0 "$CLTRAIN" train gpt.json --out run
expect_text '^done: 20 steps.*eval loss [0-9.]+, perplexity [0-9.]+, [0-9.]+ bits/byte'
reject_text 'no evaluation data'
for file in config.json data.json; do
    expect_file run/checkpoints/step_20/$file
    if grep -q "\"$file\"" run/checkpoints/step_20/manifest.json; then pass; else fail "$file is not in the manifest"; fi
done

# --- perplexity and bits per byte: of bytes, of tokens ---
expect_code 0 "$CLTRAIN" eval run --json bytes.json
expect_text '^eval \| loss [0-9.]+ \| perplexity [0-9.]+ \| [0-9.]+ bits/byte'
loss=$(json loss bytes.json)
expect_near 'perplexity is exp(loss)' "$(json perplexity bytes.json)" "$(awk -v l="$loss" 'BEGIN { printf "%.15g", exp(l) }')"
expect_near 'a byte is a byte' "$(json bits_per_byte bytes.json)" "$(awk -v l="$loss" 'BEGIN { printf "%.15g", l / log(2) }')"
expect_near 'metrics.jsonl' "$(values eval_perplexity run/metrics.jsonl | tail -n 1)" "$(json perplexity bytes.json)"
expect_near 'metrics.jsonl' "$(values eval_bits_per_byte run/metrics.jsonl | tail -n 1)" "$(json bits_per_byte bytes.json)"

expect_code 0 "$CLTRAIN" data prepare data/cats.txt --train-bpe 270 --out tokens
expect_code 0 "$CLTRAIN" train gpt.json data.type=tokens data.path=tokens --out bpe
expect_file bpe/checkpoints/step_20/tokenizer.json
expect_code 0 "$CLTRAIN" eval bpe --json tokens.json
# All bytes of the evaluation part except those of its first token, which is not predicted.
part=$(("$(wc -c <data/cats.txt)" / 10))
bytes=$(awk -v l="$(json loss tokens.json)" -v n="$(json targets tokens.json)" -v b="$(json bits_per_byte tokens.json)" \
    'BEGIN { printf "%.6f", l * n / log(2) / b }')
if awk -v b="$bytes" -v p="$part" 'BEGIN { r = int(b + 0.5); exit !(b - r < 1e-3 && r - b < 1e-3 && r < p + 40 && r > p - 40) }'; then
    pass
else
    fail "bits per byte count $bytes bytes, and the evaluation part has about $part"
fi

# --- from another folder, and after data and run have moved ---
cp -r run ../alone
cd ../other || exit 1
for run in ../place/run ../place/run/checkpoints/step_20 ../alone; do
    expect_code 0 "$CLTRAIN" eval $run
    expect_text "^eval \| loss $(printf '%.4f' "$loss")"
done
mv ../place ../moved # run and data together
expect_code 0 "$CLTRAIN" eval ../moved/run
expect_text "^eval \| loss $(printf '%.4f' "$loss")"
mkdir -p new && mv ../moved/data ../moved/tokens new/
for run in ../moved/run ../moved/bpe; do # the data is elsewhere: generation does not need it
    guarded "$CLTRAIN" generate $run --prompt 'and the ' --max-new 5 >"$out" 2>&1 </dev/null || fail "generate $run"
    expect_text '^and the '
done
cp -r ../moved/bpe/checkpoints/step_20 lonely # one step_N and nothing else
expect_code 0 "$CLTRAIN" generate lonely --prompt x --max-new 3
expect_code 2 "$CLTRAIN" generate lonely precision.mode=f33
expect_text 'precision.mode'
expect_code 0 "$CLTRAIN" generate --checkpoint lonely --tokenizer new/tokens --prompt x --max-new 3
expect_code 3 "$CLTRAIN" generate lonely --tokenizer nowhere --prompt x
expect_code 0 "$CLTRAIN" export lonely --out lonely.safetensors
expect_file lonely.safetensors
expect_code 3 "$CLTRAIN" eval ../moved/run
expect_text "its evaluation data, which is not where it was: data.path 'data/cats.txt'" 'data.path='
expect_code 0 "$CLTRAIN" eval ../moved/run data.path=new/data/cats.txt
expect_code 0 "$CLTRAIN" eval lonely data.path=new/tokens

# --- resuming elsewhere: accepted with the same data in a new place, refused with other data ---
expect_code 3 "$CLTRAIN" train --resume ../moved/run train.steps=24
expect_text "training data, which is not where it was: data.path 'data/cats.txt'" 'give its new place with data.path='
expect_code 3 "$CLTRAIN" train ../moved/gpt.json --out ../moved/run --resume auto
expect_text "resuming '../moved/run' needs its training data.*data.path 'data/cats.txt'" 'give its new place with data.path='
sed 's/cat/dog/' new/data/cats.txt >dogs.txt
expect_code 3 "$CLTRAIN" train --resume ../moved/run train.steps=24 data.path=dogs.txt
expect_text 'not what the run was trained on' 'fingerprint' 'data.path: was'
cp -r ../moved/run ../straight
# The time of a step is known from the steps that the run has made on this device.
expect_code 0 "$CLTRAIN" train --resume ../moved/run train.steps=24 data.path=new/data/cats.txt --dry-run
expect_text '^time per step +[0-9.]+ ms on this device, when the run made steps [0-9]+ to 20; all 24 take ' 'nothing was trained'
expect_code 0 "$CLTRAIN" train --resume ../moved/run train.steps=24 data.path=new/data/cats.txt
expect_text '^resumed from .*/step_20 at step 20$' 'the run was 20 steps long and is now 24' \
    'learning rate: from 0.01 at step 20 to 0.01 at step 21 \(schedule constant' 'their content is the same'
expect_file ../moved/run/config.resolved.1.json ../moved/run/checkpoints/step_24/config.json
if grep -q '"steps": 20' ../moved/run/config.resolved.1.json && grep -q '"steps": 24' ../moved/run/config.resolved.json; then
    pass
else
    fail 'config.resolved.json was not brought up to date'
fi
if grep -q '"event":"extended","step":20' ../moved/run/metrics.jsonl; then pass; else fail 'the extension is not an event'; fi
# A run that was made longer equals a run that had that length from the start, bit for bit: the schedule is constant.
expect_code 0 "$CLTRAIN" train ../moved/gpt.json data.path=new/data/cats.txt train.steps=24 --out whole
for file in model optimizer; do
    expect_same whole/checkpoints/step_24/$file.safetensors ../moved/run/checkpoints/step_24/$file.safetensors
done

# A vocabulary that is just the bytes is not saved as a file; the run resumes, and is used, without the
# folder that the vocabulary came from.
expect_code 0 "$CLTRAIN" export ../moved/run --out ../bytes_folder
expect_code 0 "$CLTRAIN" train ../moved/gpt.json data.path=new/data/cats.txt --init ../bytes_folder --out from_bytes train.steps=2
expect_code 3 "$CLTRAIN" train --resume from_bytes train.steps=3 data.tokenizer=nowhere
expect_text "data.tokenizer 'nowhere'.*give its new place with data.tokenizer="
rm -r ../bytes_folder
expect_code 0 "$CLTRAIN" generate from_bytes --prompt x --max-new 3
expect_code 0 "$CLTRAIN" eval from_bytes
expect_code 0 "$CLTRAIN" train --resume from_bytes train.steps=3

# --- what a run cannot become ---
cd ..
expect_code 2 "$CLTRAIN" train --resume moved/run train.steps=22
expect_text 'cannot become shorter' '--max-steps N' 'give train.steps=24, or resume with .cltrain train --resume RUN. without a CONFIG'
expect_code 2 "$CLTRAIN" train --resume moved/run schedule.type=cosine
expect_text 'can change only when the run becomes longer' 'schedule.type: was "constant", is "cosine"'
expect_code 2 "$CLTRAIN" train --resume moved/run train.seed=2
expect_text 'the config has changed' 'train.seed: was 1337, is 2'
expect_code 2 "$CLTRAIN" train --resume moved/run/checkpoints/step_10
expect_text 'is not the newest checkpoint of .moved/run., which is step_24' '--out DIR'
expect_code 2 "$CLTRAIN" train --resume other/lonely data.path=other/new/tokens
expect_text 'is not in a run folder' '--out DIR'
expect_code 0 "$CLTRAIN" train --resume moved/run/checkpoints/step_10 --out branch --max-steps 11 data.path=other/new/data/cats.txt
expect_text 'at step 10$'
# With a new schedule; the jump of the learning rate is reported.
expect_code 0 "$CLTRAIN" train --resume moved/run/checkpoints/step_24 train.steps=30 schedule.type=linear
expect_text 'from 0.01 at step 24 to 0.002 at step 25 \(schedule linear, which is new, over 30 steps\)'
# Epochs count as well.
cat >few.json <<'JSON'
{"model": {"type": "mlp", "hidden": [4]}, "data": {"type": "synthetic", "samples": 40, "shape": [4], "classes": 3, "micro_batch": 8},
 "train": {"epochs": 2}}
JSON
expect_code 0 "$CLTRAIN" train few.json --out few
expect_code 0 "$CLTRAIN" train few.json --out few --resume auto train.epochs=3
expect_text 'the run was 10 steps long and is now 15' '^done: 15 steps'
expect_code 0 "$CLTRAIN" train --resume few
expect_text 'a larger train.epochs makes it longer'

# A warm-up that the steps of an epoch cannot hold is shortened, so that the rate reaches its peak; the run resumes with the same.
short=(few.json train.epochs=1 schedule.type=linear schedule.warmup=12)
expect_code 0 "$CLTRAIN" train "${short[@]}" --out short
expect_text 'schedule.warmup is 1 instead of 12, since the run has only 5 steps: train.epochs=1 of 40 samples in batches of 8' '1 step of warm-up'
expect_code 0 "$CLTRAIN" train "${short[@]}" --out cut --max-steps 2
expect_code 0 "$CLTRAIN" train "${short[@]}" --out cut --resume auto
expect_text '^done: 5 steps'
expect_code 0 "$CLTRAIN" train "${short[@]}" --out own --max-steps 2
expect_code 0 "$CLTRAIN" train --resume own
for run in cut own; do
    for file in model optimizer; do
        expect_same short/checkpoints/step_5/$file.safetensors $run/checkpoints/step_5/$file.safetensors
    done
done
expect_code 0 "$CLTRAIN" plan few.json schedule.warmup=12 schedule.type=wsd schedule.decay_steps=9 --device generic
expect_text 'schedule.warmup is 1 instead of 12.* 10 steps' 'schedule.decay_steps is 1 instead of 9.* 10 steps'
expect_code 0 "$CLTRAIN" plan few.json schedule.warmup=10 --device generic
reject_text 'instead of'
# A batch that is larger than the data.
expect_code 0 "$CLTRAIN" train few.json data.micro_batch=100 --out large
expect_text 'a batch has 100 samples, and the training data only 40: each step takes every sample 2 or one more times'
[ "$(grep -c 'a batch has' "$out")" = 1 ] && pass || fail 'a large batch is told more than once'
expect_code 0 "$CLTRAIN" plan few.json data.micro_batch=40 --device generic
reject_text 'a batch has'
# Epochs on the command line replace the file's steps; beside steps in the same place they have no effect.
sed 's/"epochs": 2/"steps": 60/' few.json >steps.json
expect_code 0 "$CLTRAIN" train steps.json train.epochs=1 --out replaced
expect_text 'train.epochs=1 is given on the command line, so train.steps 60 of steps.json does not count' '^done: 5 steps'
expect_code 0 "$CLTRAIN" train --resume replaced
expect_text 'a larger train.epochs makes it longer'
expect_code 0 "$CLTRAIN" train steps.json train.steps=5 --out longer
expect_code 0 "$CLTRAIN" train --resume longer train.epochs=3
expect_text 'so train.steps 5 of .*does not count' 'the run was 5 steps long and is now 15' '^done: 15 steps'
expect_code 2 "$CLTRAIN" train steps.json train.epochs=1 train.steps=9
expect_text 'train.epochs has no effect beside train.steps, which is 9: give only one'
expect_code 0 "$CLTRAIN" plan steps.json train.epochs=1 train.steps=0 --device generic
expect_text '^steps +5'
sed 's/"steps": 60/"steps": 60, "epochs": 1/' steps.json >both.json
expect_code 0 "$CLTRAIN" plan both.json --device generic
expect_text 'both.json:2: train.epochs has no effect beside train.steps, which is 60; remove one of them' '^steps +60'
for config in steps.json longer/config.resolved.json; do
    expect_code 0 "$CLTRAIN" plan $config --device generic
    reject_text 'has no effect'
done

# Folders and files of the wrong kind.
expect_code 2 "$CLTRAIN" train few
expect_text "'few' is a folder with a trained run" 'cltrain train --resume few'
expect_code 7 "$CLTRAIN" generate few.json
expect_text 'it is a file; name a run folder'
mkdir begun && cp few/config.resolved.json begun/
expect_code 7 "$CLTRAIN" train --resume begun
expect_text 'ended before its first checkpoint' 'train begun/config.resolved.json --out begun --resume auto'

# --- evaluation without evaluation data ---
{ printf '\0\0\010\003' && be32 32 && be32 4 && be32 4 && bytes 512 1 256; } >x.idx
{ printf '\0\0\010\001' && be32 32 && bytes 32 2 3; } >y.idx
cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [4]}, "data": {"type": "idx", "path": "x.idx", "targets": "y.idx", "micro_batch": 8}, "train": {"steps": 4}}
JSON
expect_code 0 "$CLTRAIN" train net.json --out net
expect_text 'there is no evaluation data'
if [ "$(grep -c 'there is no evaluation data' "$out")" -eq 1 ]; then pass; else fail 'the warning comes more than once'; fi
expect_code 2 "$CLTRAIN" eval net
expect_text 'names no evaluation data' 'data.eval_path and data.eval_targets' '--on train'
expect_code 0 "$CLTRAIN" eval net --on train --json train.json
expect_text '^eval on the TRAINING data \| loss'
reject_text 'perplexity' 'bits/byte'
if grep -q '"data": "TRAINING"' train.json && ! grep -q perplexity train.json; then pass; else fail "train.json: $(cat train.json)"; fi
mv y.idx labels.idx # classes come from the checkpoint
expect_code 0 "$CLTRAIN" eval net data.eval_path=x.idx data.eval_targets=labels.idx
expect_text '^eval \| loss .* 32 samples'
expect_code 2 "$CLTRAIN" eval net --on test
expect_text "--on 'test'; it can be eval"

# --- generate for a run that is not a language model ---
expect_code 2 "$CLTRAIN" generate net
expect_text 'this run trained an mlp on idx data, samples \(4,4\) u8, 3 classes' "'cltrain predict'" "'cltrain eval'"
finish
