#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 30
# ctest-optimise: no
#
# What recipes for images need from training: which parameters decay, learning rates that scale with the
# batch, metrics of classes, the best checkpoint by a metric, an early end, and an automatic micro-batch.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cat >net.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "linear", "out": 16}, {"op": "layernorm"}, {"op": "relu"},
    {"op": "linear", "out": 4}, {"op": "cross_entropy"}]},
 "data": {"type": "synthetic", "shape": [8], "classes": 4, "samples": 256, "micro_batch": 16, "global_batch": 64, "noise": 1.5},
 "optimizer": {"type": "sgd", "learning_rate": 0.1, "weight_decay": 0.25}, "schedule": {"type": "cosine", "min_learning_rate": 0.01},
 "train": {"steps": 8}}
JSON
rates() { grep -o '"lr":[0-9.e-]*' "$1/metrics.jsonl"; }

# Decay: 8*16 + 16*4 weights of layers; the norm's 2*16 and the 16 + 4 biases only if all decay.
expect_code 0 "$CLTRAIN" plan net.json --device generic
expect_text '192 of 244 trained parameters in 2 of 6 tensors decay by 0.25' 'norms and biases do not'
expect_code 0 "$CLTRAIN" plan net.json --device generic optimizer.decay=all
expect_text '244 of 244 trained parameters in 6 of 6 tensors decay by 0.25'
expect_code 0 "$CLTRAIN" plan net.json --device generic 'model.freeze=linear1.*'
expect_text '64 of 100 trained parameters in 1 of 4 tensors decay'
expect_code 0 "$CLTRAIN" estimate net.json --device generic --json optimizer.base_batch=256
expect_text '"decaying_parameters": 192' '"peak_learning_rate": 0.025'
expect_code 0 "$CLTRAIN" plan net.json --device generic optimizer.weight_decay=0
expect_text 'decay +none'

# Linear scaling gives the same as writing the multiplied rates, for the schedule's minimum too, and for any
# number of ranks.
expect_code 0 "$CLTRAIN" plan net.json --device generic optimizer.base_batch=32 --ranks 4
expect_text 'learning rate 0.1 x 64/32 = 0.2'
expect_code 0 "$CLTRAIN" plan net.json --device generic optimizer.base_batch=32 data.global_batch=0 --ranks 4
expect_text 'learning rate 0.1 x 64/32 = 0.2'

"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }
expect_code 0 "$CLTRAIN" train net.json optimizer.base_batch=32 --out scaled
expect_text 'learning rate 0.1 x 64/32 = 0.2'
expect_code 0 "$CLTRAIN" train net.json optimizer.learning_rate=0.2 schedule.min_learning_rate=0.02 --out plain
expect_same <(rates scaled) <(rates plain)
expect_same scaled/checkpoints/step_8/model.safetensors plain/checkpoints/step_8/model.safetensors
if grep -q '"event":"start".*"peak_lr":0.2,"lr_factor":2' scaled/metrics.jsonl; then pass; else fail 'the start does not record the learning rate'; fi
expect_code 0 "$CLTRAIN" train net.json optimizer.base_batch=32 --max-steps 5 --out half
expect_code 0 "$CLTRAIN" train --resume half
expect_same scaled/checkpoints/step_8/model.safetensors half/checkpoints/step_8/model.safetensors
expect_code 2 "$CLTRAIN" train --resume half optimizer.base_batch=16 train.steps=9
expect_text 'optimizer.base_batch: was 32, is 16'
# Metrics of classes agree with the loss record, whatever the micro-batch, and cost nothing unless
# requested.
json() { sed -n -E "s/^ *\"$1\": ([-0-9.e]+),?$/\1/p" "$2" | head -n "${3:-1}"; }
cat >eight.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "linear", "out": 16}, {"op": "relu"}, {"op": "linear", "out": 8}, {"op": "cross_entropy"}]},
 "data": {"type": "synthetic", "shape": [8], "classes": 8, "samples": 250, "micro_batch": 16, "global_batch": 64, "noise": 1.5},
 "optimizer": {"type": "sgd", "learning_rate": 0.3}, "train": {"steps": 24, "eval_every": 4}, "checkpoint": {"keep": 0}}
JSON
expect_code 0 "$CLTRAIN" train eight.json train.eval_metrics=true --out classes
expect_text 'eval at step 24 .*accuracy [0-9.]+% \| top-5 [0-9.]+% \| macro F1 0\.[0-9]+ \| 250 samples'
expect_code 0 "$CLTRAIN" train eight.json --out none
reject_text 'top-5' 'macro F1'
expect_absent none/classes.json
expect_same classes/checkpoints/step_24/model.safetensors none/checkpoints/step_24/model.safetensors
expect_same <(grep -o '"eval_accuracy":[0-9.]*' classes/metrics.jsonl) <(grep -o '"eval_accuracy":[0-9.]*' none/metrics.jsonl)
expect_code 0 "$CLTRAIN" eval classes --json eval.json --confusion matrix.csv --classes
expect_text '^class +targets +predicted +precision +recall +F1' '^macro F1 0\.' 'confusion matrix: a line for each target' 'top-5'
expect_code 0 "$CLTRAIN" eval classes data.micro_batch=64 --json other.json --confusion other.csv
expect_same matrix.csv other.csv
expect_awk 'the confusion matrix does not have 250 targets, of which the accuracy is right' '
    BEGIN { FS = "," } FNR == 1 { file++ } file == 1 && FNR > 1 { rows++; for (i = 2; i <= NF; i++) { all += $i; if (i == FNR) right += $i } }
    file == 2 && /"accuracy"/ { split($0, a, /[:,]/); said = a[2] } END { d = right / all - said; exit !(rows == 8 && all == 250 && d < 1e-9 && d > -1e-9) }' \
    matrix.csv eval.json
expect_same <(json top_k_accuracy eval.json; json macro_f1 eval.json) <(json top_k_accuracy classes/classes.json; json macro_f1 classes/classes.json)
expect_same <(json targets eval.json 99 | tail -n 8) <(awk -F, 'FNR > 1 { n = 0; for (i = 2; i <= NF; i++) n += $i; print n }' matrix.csv)
expect_code 0 "$CLTRAIN" eval classes --json few.json train.eval_top_k=8
if grep -q top_k few.json; then fail 'top 8 of 8 classes'; else pass; fi
expect_code 0 "$CLTRAIN" eval none --confusion - # a run that did not ask for them has them too
expect_text '^target.prediction,0,1,2,3,4,5,6,7$'
expect_code 2 "$CLTRAIN" eval classes --confusion - --json -
expect_text 'cannot both be the standard output'
cat >values.json <<'JSON'
{"model": {"type": "mlp", "hidden": [4], "loss": "mse", "outputs": 1}, "data": {"type": "csv", "path": "rows.csv", "target": "y", "micro_batch": 2, "split": 0.5},
 "optimizer": {"type": "sgd", "learning_rate": 0.01}, "train": {"steps": 2}}
JSON
printf 'a,b,y\n1,2,0.5\n2,3,1.5\n4,1,2.5\n0,1,0.25\n' >rows.csv
expect_code 0 "$CLTRAIN" train values.json --out values
expect_code 0 "$CLTRAIN" eval values
expect_code 2 "$CLTRAIN" eval values --classes
expect_text 'is for models that predict classes'
expect_code 2 "$CLTRAIN" train values.json train.eval_metrics=true --out refused
expect_text 'train.eval_metrics: evaluations cannot count by class'
expect_code 2 "$CLTRAIN" train eight.json checkpoint.best=dice --out refused
expect_text 'this is not a segmentation'
expect_code 2 "$CLTRAIN" train eight.json checkpoint.best=top_k train.eval_top_k=8 --out refused
expect_text 'every prediction is right among the top 8'
expect_absent refused

# A segmentation: each of 2 x 3 places has one of three classes, or 255, which does not count. awk counts
# the predictions.
{ npy_header '<f4' '(7, 2, 3, 2)'; f32 $(awk 'BEGIN { for (i = 0; i < 84; i++) printf "%.3f ", i * 37 % 19 / 9 - 1 }'); } >x.npy
{ npy_header '|u1' '(7, 2, 3)'; for i in {0..41}; do printf "\\x$(printf %02x $((i % 9 == 4 ? 255 : i * i % 11 % 3)))"; done; } >y.npy
cat >places.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "linear", "out": 8}, {"op": "relu"}, {"op": "linear", "out": 3, "name": "logits"},
    {"op": "cross_entropy", "inputs": ["logits", "y"], "ignore_index": 255}]},
 "data": {"type": "npy", "path": "x.npy", "targets": "y.npy", "eval_path": "x.npy", "eval_targets": "y.npy", "micro_batch": 2},
 "train": {"steps": 40, "eval_every": 20, "eval_metrics": true}, "optimizer": {"learning_rate": 0.05}, "checkpoint": {"best": "dice"}}
JSON
expect_code 0 "$CLTRAIN" train places.json --out places
expect_text 'eval at step 40 .*accuracy [0-9.]+% \| mean Dice 0\.[0-9]+ \| 7 samples'
expect_code 0 "$CLTRAIN" eval places --json places.eval --classes
expect_text '^class +targets +predicted +precision +recall +Dice +Dice/sample' 'mean Dice of a sample 0\.[0-9]+ \(both without class 0\)'
tail -c 42 y.npy | od -An -v -tu1 -w1 | tr -d ' ' >places.truth
# counted RUN: mean Dice and mean Dice of a sample, without class 0, from the run's predictions.
counted() {
    expect_code 0 "$CLTRAIN" predict "$1" --format csv --input "$2" --out "$1.csv"
    awk '
        FNR == NR { truth[NR - 1] = $1; next }
        FNR == 1 { n = split($0, title, ","); for (i = 1; i <= n; i++) if (title[i] == "p0") first = i; next }
        { split($0, c, ","); p = c[first]; g = 0; for (k = 1; k < 3; k++) if (c[first + k] > p) { p = c[first + k]; g = k }
          t = truth[FNR - 2]; s = int((FNR - 2) / 6); if (t == 255) next
          T[t]++; P[g]++; H[t] += t == g; ts[s, t]++; ps[s, g]++; hs[s, t] += t == g }
        END { for (k = 1; k < 3; k++) { all += 2 * H[k] / (T[k] + P[k]) / 2; m = 0; d = 0
                  for (s = 0; s < 7; s++) if (ts[s, k] > 0) { m++; d += 2 * hs[s, k] / (ts[s, k] + ps[s, k]) }; each += d / m / 2 }
              printf "%.9f\n%.9f\n", all, each }' places.truth "$1.csv" >"$1.want"
    expect_same <(awk '{ printf "%.9f\n", $1 }' <(json mean_dice "$1.eval"; json mean_sample_dice "$1.eval")) "$1.want"
}
counted places x.npy
# The same with channels and classes as dimension 1.
{ npy_header '<f4' '(7, 2, 2, 3)'; f32 $(awk 'BEGIN { for (i = 0; i < 84; i++) printf "%.3f ", i * 37 % 19 / 9 - 1 }'); } >x2.npy
sed 's/x.npy/x2.npy/g; s/"op": "linear", "out": \([38]\)/"op": "conv2d", "kernel": 1, "out": \1/g' places.json >masks.json
expect_code 0 "$CLTRAIN" train masks.json --out masks
expect_code 0 "$CLTRAIN" eval masks --json masks.eval
counted masks x2.npy
# Losses that read the same targets count them once, though a Dice loss counts samples: 7, and places 37 or so.
# Targets of different fields add: a squared difference has the 84 numbers of x.
entropy='{"op": "cross_entropy", "inputs": ["logits", "y"], "ignore_index": 255}'
dice='{"op": "dice_loss", "inputs": ["logits", "y"], "ignore_index": 255}'
square='{"op": "conv2d", "kernel": 1, "out": 2, "inputs": ["logits"], "name": "back"}, {"op": "mse", "inputs": ["back", "x"]}'
for losses in "$entropy, $dice" "$dice, $entropy" "$entropy, $square" "$square, $dice, $entropy"; do
    sed 's/{"op": "cross_entropy".*"ignore_index": 255}/LOSSES/; s/"steps": 40, "eval_every": 20, "eval_metrics": true/"steps": 1/
        s/, "checkpoint": {"best": "dice"}//' masks.json | awk -v losses="$losses" '{ sub(/LOSSES/, losses); print }' >several.json
    rm -rf several
    expect_code 0 "$CLTRAIN" train several.json --out several
    expect_code 0 "$CLTRAIN" eval several --json several.eval
    case $losses in *mse*) more=84 ;; *) more=0 ;; esac
    expect_same <(json targets several.eval | awk 'NR == 1 { print $1 + 0 }') \
        <(json targets masks.eval | awk -v more=$more 'NR == 1 { print $1 + more }')
done
expect_code 0 "$CLTRAIN" eval places --json background.eval train.eval_background=true
expect_awk 'class 0 does not change the mean' '/"mean_dice"/ { split($0, a, /[:,]/); v[++n] = a[2] } END { exit !(n == 2 && v[1] != v[2]) }' places.eval background.eval

# The best checkpoint by a figure is kept, and commands find it.
expect_code 0 "$CLTRAIN" train eight.json checkpoint.best=f1 checkpoint.keep=1 train.steps=40 --out best
best=$(grep -o '"eval_f1":[0-9.]*' best/metrics.jsonl | cut -d: -f2 | awk '$1 > most { most = $1; n = NR } END { print 4 * n }')
if [ -d "best/checkpoints/step_$best" ] && [ "$(find best/checkpoints -name 'step_*' | wc -l)" -le 2 ]; then pass; else
    fail "the checkpoint of step $best, the best by F1, is not there: $(echo best/checkpoints/*)"
fi
expect_code 0 "$CLTRAIN" eval best --best --json found.json
expect_code 0 "$CLTRAIN" eval "best/checkpoints/step_$best" --json named.json
expect_same <(json loss found.json; json macro_f1 found.json) <(json loss named.json; json macro_f1 named.json)
if grep -q "\"eval_f1\":$(json macro_f1 found.json)," best/metrics.jsonl; then pass; else fail 'the best F1 is not among the evaluations'; fi
expect_code 0 "$CLTRAIN" export best --best --out best.safetensors
expect_code 0 "$CLTRAIN" export "best/checkpoints/step_$best" --out named.safetensors
expect_same best.safetensors named.safetensors
expect_code 0 "$CLTRAIN" train eight.json train.eval_every=0 checkpoint.final=false checkpoint.every=20 --out never
expect_code 7 "$CLTRAIN" eval never --best
expect_text 'records no evaluation'
# As older configs have it.
expect_code 0 "$CLTRAIN" train eight.json checkpoint.best=true --dry-run
expect_code 0 "$CLTRAIN" config --print eight.json checkpoint.best=true
expect_text '"best": "loss"'

# An early end: its patience is the same for a run in several parts, and the run stays ended.
early=(train.steps=200 train.early_stop_evals=3 checkpoint.best=f1)
expect_code 0 "$CLTRAIN" train eight.json "${early[@]}" --out early
expect_text 'train --resume early train.early_stop_evals=0' 'early end after step [0-9]+ of 200: 3 evaluations in a row were no better; the best macro F1 so far is'
expect_text 'evaluate +.*eval early --best' 'predict +.*predict early --best FILE'
end=$(sed -n -E 's/.*"event":"early_end","step":([0-9]+),.*"by":"f1","evaluations":3,.*/\1/p' early/metrics.jsonl)
[ -n "$end" ] && [ -d "early/checkpoints/step_$end" ] && pass || fail "no checkpoint of the early end at step '$end'"
if tail -n 1 early/metrics.jsonl | grep -q '"event":"end"'; then pass; else fail 'the run has no end'; fi
expect_code 0 "$CLTRAIN" train eight.json "${early[@]}" --max-steps 6 --out parts
for stop in $((end - 9)) $((end - 2)) 200; do # between evaluations, too
    expect_code 0 "$CLTRAIN" train --resume parts --max-steps "$stop"
done
if grep -q "\"event\":\"early_end\",\"step\":$end,.*\"evaluations\":3," parts/metrics.jsonl; then pass; else fail "the run in parts does not end after step $end"; fi
expect_same "early/checkpoints/step_$end/model.safetensors" "parts/checkpoints/step_$end/model.safetensors"
expect_code 0 "$CLTRAIN" train --resume early
expect_text 'it has ended early'
expect_code 0 "$CLTRAIN" train --resume early train.early_stop_evals=0 --max-steps $((end + 3))
expect_text "step $((end + 3))/"
expect_code 0 "$CLTRAIN" train eight.json train.early_stop_evals=1 train.early_stop_delta=10 --out delta # nothing is so much better
expect_text 'early end after step 8 of 24'
expect_code 2 "$CLTRAIN" train eight.json train.early_stop_evals=3 train.eval_every=0 --out refused
expect_text 'train.early_stop_evals.*needs evaluations during the training'

# Evaluations of a resumed run that measure something else are not compared with the earlier ones.
expect_code 0 "$CLTRAIN" train --resume early train.eval_batches=1 train.early_stop_evals=0 --max-steps $((end + 8))
expect_text 'its evaluations had other data, or other values of train.eval_batches.*begin again'
expect_code 0 "$CLTRAIN" train --resume early train.eval_batches=1 train.early_stop_evals=0 --max-steps $((end + 10))
reject_text 'begin again'
# Evaluations that are not finite count for the patience, also in a run in several parts.
nan=(train.steps=200 train.early_stop_evals=4 optimizer.learning_rate=1e6 optimizer.weight_decay=1e6 train.max_nonfinite=1000)
expect_code 0 "$CLTRAIN" train eight.json "${nan[@]}" --out nan
expect_text 'early end after step 16 of 200: 4 evaluations in a row were no better; no loss was finite'
expect_code 0 "$CLTRAIN" train eight.json "${nan[@]}" --max-steps 9 --out nan_parts
expect_code 0 "$CLTRAIN" train --resume nan_parts
expect_text 'early end after step 16 of 200'

# A fraction of an epoch gives as many steps as its decimal number says, though 0.29 and 1.15 are a little
# smaller in binary.
sed 's/"steps": 8/"epochs": 1/' net.json >epochs.json
for part in 0.29:29 0.57:57 1.15:115 2.3:230 0.295:29 0.001:1; do
    expect_code 0 "$CLTRAIN" plan epochs.json --device generic data.samples=100 data.micro_batch=1 data.global_batch=1 "train.epochs=${part%:*}"
    expect_text "^steps +${part#*:}, "
done

# data.micro_batch auto: the largest divisor of the global batch that fits; the run is then the same as with
# that number.
expect_code 0 "$CLTRAIN" plan eight.json data.micro_batch=auto data.global_batch=96 --device generic
expect_text 'data.micro_batch is auto: 96 was found to fit' 'micro 96 x accumulation 1 = 96'
expect_code 0 "$CLTRAIN" plan eight.json data.micro_batch=auto data.global_batch=96 --device generic --ranks 4
expect_text 'micro-batches of 24'
expect_code 0 "$CLTRAIN" estimate eight.json data.micro_batch=auto data.global_batch=0 --device generic --json
expect_text '"micro_batch": 128' # a power of two, not more than there are samples
wide=(data.samples=8192 data.shape=[4096] data.global_batch=8192 train.steps=2 train.eval_every=0)
expect_code 0 "$CLTRAIN" plan eight.json data.micro_batch=auto 'data.shape=[100000]' data.samples=65536 data.global_batch=65536 --device generic
expect_text 'data.micro_batch is auto: 1024 was found to fit' 'fits into the 8.0 GiB.* the largest data.micro_batch that fits is 1024'
expect_code 0 "$CLTRAIN" plan eight.json data.micro_batch=auto data.global_batch=96 'data.shape=[32000000]' optimizer.type=adamw --device generic
expect_text 'data.micro_batch is auto: no size fits; this plan has the smallest, [0-9]+' 'DOES NOT FIT into the 8.0 GiB.* no data.micro_batch fits'
expect_code 0 "$CLTRAIN" train eight.json data.micro_batch=auto --out found
expect_text '64 samples a step; micro-batches of 64 were found to fit'
expect_code 0 "$CLTRAIN" train eight.json data.micro_batch=64 --out number
expect_code 0 "$CLTRAIN" export found --out found.safetensors
expect_same found/checkpoints/step_24/model.safetensors number/checkpoints/step_24/model.safetensors
expect_code 0 "$CLTRAIN" bench step eight.json data.micro_batch=auto --steps 2
expect_code 0 "$CLTRAIN" eval eight.json --init found.safetensors data.micro_batch=auto
expect_text 'accuracy .* 250 samples'
expect_code 0 "$CLTRAIN" eval found --json found.json
expect_same <(json loss found.json) <(grep -o '"eval_loss":[0-9.]*' found/metrics.jsonl | tail -n 1 | cut -d: -f2)
# A resumed run keeps the size that was found, and takes another one if the user gives it.
expect_code 0 "$CLTRAIN" train eight.json data.micro_batch=auto data.global_batch=0 --max-steps 5 --out kept
expect_text '128 samples a step; .*data.global_batch is not given'
expect_code 0 "$CLTRAIN" train --resume kept --max-steps 8
expect_text '128 samples a step'
expect_code 2 "$CLTRAIN" train --resume kept data.micro_batch=64 data.global_batch=64
expect_text 'its 8 steps took 128 samples each, this run takes 64 a step; give data.micro_batch=64 data.global_batch=128'
expect_code 0 "$CLTRAIN" train --resume kept data.micro_batch=64 --max-steps 9
expect_text 'a step takes 128 samples as before, now in micro-batches of 64, before of 128'
expect_code 0 "$CLTRAIN" train --resume found data.micro_batch=8 train.steps=26
expect_text '64 samples a step, 8 times 8'
expect_code 0 "$CLTRAIN" train --resume found train.steps=28
expect_text '64 samples a step, 8 times 8'
if [ -f "$CLTRAIN_BUILD_DIR/tests/driver_shim.so" ]; then
    need_shim
    expect_code 0 env LD_PRELOAD="$shim" CLT_SHIM=memory=40000000 "$CLTRAIN" train eight.json data.micro_batch=auto "${wide[@]}" device.tune=off --max-steps 1 --out less
    expect_text 'a device refused the memory for micro-batches of 8192; this run continues with 4096' 'micro-batches of 512 were found to fit'
    # On a device with more memory the run continues with its micro-batch.
    expect_code 0 "$CLTRAIN" train --resume less
    expect_text 'micro-batches of 512 were found to fit'
    expect_code 0 "$CLTRAIN" eval less data.samples=100
else
    note_skip 'driver_shim was not built: no device refuses memory'
fi
finish
