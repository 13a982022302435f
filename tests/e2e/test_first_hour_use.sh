#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 12 ctest-optimise: no
#
# What a user of another tool writes and asks in the first hour: wrong keys, layer lists with mistakes, which ops exist, what a run
# would need, and predictions from a trained net.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_home
export COLUMNS=80 CLTRAIN_GEMM=simple # starts fastest

net mlp data.samples=256 data.classes=4 data.micro_batch=16 train.steps=20 >base.json

# --- keys of other tools: the message contains the line to write ---
train() { expect_code 2 "$CLTRAIN" train base.json "$@" --out never; }
train learning_rate=0.1
expect_text "learning_rate: a key needs its section; did you mean 'optimizer.learning_rate'\? write: optimizer.learning_rate=0.1"
train optimizer.lr=0.1 data.batch_size=8 trainer.max_epochs=2
expect_text 'write: optimizer.learning_rate=0.1' 'write: data.micro_batch=8' 'write: train.epochs=2'
train --lr 0.1
expect_text "unknown option '--lr'.*write: optimizer.learning_rate=0.1"
train --batch-size=8
expect_text "write: data.micro_batch=8"
train weight-decay=0.1 resume=auto
expect_text 'write: optimizer.weight_decay=0.1' 'use --resume auto'
train output_dir=x
expect_text 'name the run folder with --out DIR'
printf '{"learning_rate": 0.1, "n_layer": 4, "model": {"type": "gpt", "d_model": 64}}' >flat.json
expect_code 2 "$CLTRAIN" train flat.json --out never
expect_text 'write: "optimizer": \{"learning_rate": 0.1\}' 'write: "model": \{"layers": 4\}' 'write: "model": \{"channels": 64\}'
expect_absent never

# --- layer lists: all mistakes at once, with correct hints; the example of docs/configs.md works on images ---
{ printf '\x00\x00\x08\x03' && be32 64 && be32 4 && be32 4 && bytes 1024 7 256; } >images
{ printf '\x00\x00\x08\x01' && be32 64 && bytes 64 3 4; } >labels
layers() { # file, layers
    printf '{"model": {"type": "graph", "layers": [%s]},\n "data": {"type": "idx", "path": "images", "targets": "labels", "micro_batch": 16, "scale": 0.00392156862745098},\n "train": {"epochs": 1}}\n' "$2" >"$1"
}
layers graph.json '{"op": "linear", "ot": 4}, {"op": "rellu"}, {"op": "dropout", "p": 7}, {"op": "cross_entropy"}'
expect_code 2 "$CLTRAIN" train graph.json --out never
expect_text "'ot': is unknown; did you mean 'out', which is required" "no op 'rellu'; did you mean 'relu'" "'p': 7 is out of range"
layers graph.json '{"op": "linear", "ot": 4}, {"out": 3}, {"op": "cross_entropy"}'
expect_code 2 "$CLTRAIN" train graph.json --out never
expect_text "'ot': is unknown; did you mean 'out', which is required" "model.layers.1.: has no 'op'"
layers graph.json '{"op": "linear", "out": 4}, {"op": "cross_entropy"}'
expect_code 2 "$CLTRAIN" train graph.json --out never
expect_text 'put \{"op": "flatten"\} before the first linear layer'
example_graph() { awk '/"layers": \[\{"op"/ { on = 1 } on { print } on && /cross_entropy/ { exit }' "$CLTRAIN_SOURCE_DIR/docs/configs.md"; }
printf '{"model": {"type": "graph", %s},\n "data": {"type": "idx", "path": "images", "targets": "labels", "micro_batch": 16}, "train": {"steps": 1}}\n' \
    "$(example_graph)" >example.json
expect_code 0 "$CLTRAIN" train example.json --dry-run
{ npy_header '<f4' '(4, 2)' && f32 1 2 3 4 5 6 7 8; } >values.npy
printf '{"model": {"type": "mlp"}, "data": {"type": "npy", "path": "values.npy", "targets": "values.npy", "micro_batch": 2}}' >reg.json
expect_code 2 "$CLTRAIN" train reg.json --out never
expect_text 'targets are f32: model.loss=mse \(or l1\)\?'
expect_absent never

# --- ops: the list, one op in full, the page; every example is checked by test_op_pages ---
expect_code 0 "$CLTRAIN" ops
expect_text '  linear +y = x W\^T \+ b' '^losses:' '  cross_entropy '
expect_code 0 "$CLTRAIN" ops linear
expect_text '^out +integer, at least 1 +required' '^bias +true or false +true' '^example +\{"op": "linear", "out": 64\}' '^in a list +\[.*"cross_entropy"\}\]'
expect_code 2 "$CLTRAIN" ops Dense
expect_text "there is no op 'Dense'; did you mean 'linear'"
expect_code 0 "$CLTRAIN" ops --markdown
expect_same "$out" "$CLTRAIN_SOURCE_DIR/docs/ops.md"
expect_code 0 "$CLTRAIN" ops gelu --json
expect_text '"choices": \[' '"default": "none"'

# --- plan, estimate, --dry-run: the device that would train, a summary and the layers first; nothing is trained or built ---
expect_code 0 "$CLTRAIN" plan base.json --device generic
expect_text '^device +a generic GPU with 8.0 GiB, as requested' '^model +mlp, 212 parameters' '^batch +micro 16 x accumulation 1 = 16' '^steps +20, 1.25 times through the training data$' \
    'fits into the' '^fc1 +linear +\(16,16\) +144' '^loss +cross_entropy' 'memory map: --full'
expect_awk 'plan without --full is longer than a screen' 'END { exit NR > 24 }' "$out"
expect_code 0 "$CLTRAIN" plan base.json --device generic --full
expect_text 'phase forward: [0-9]+ commands' 'memory map:'
# names of layers that do not fit are wrapped after a dot; none is cut
expect_code 0 "$CLTRAIN" plan "$CLTRAIN_SOURCE_DIR/configs/bert-base-phase1.json" --device generic model.vocab=30522
expect_text '^encoder.layer.0. +linear ' '^attention.self.query$' '^attention.self.key$'
expect_awk 'a line of the table of layers is longer than 80 characters' '/^layer / { table = 1 } table && length > 80 { long = 1 } END { exit long || !table }' "$out"
expect_code 0 "$CLTRAIN" plan "$CLTRAIN_SOURCE_DIR/configs/gpt2-124m.json" --device generic
expect_text '^blocks 2 to 12, like 1 '
expect_code 0 env OCL_ICD_VENDORS=/nonexistent "$CLTRAIN" estimate base.json
expect_text '^device +none was found \(.*planned for a generic GPU'
expect_code 4 env OCL_ICD_VENDORS=/nonexistent "$CLTRAIN" estimate base.json --device cpu
if "$CLTRAIN" devices >/dev/null 2>&1; then
    name=$("$CLTRAIN" devices --json | sed -n -E 's/^ *"name": "(.*)",?$/\1/p' | head -n 1)
    for command in plan estimate; do
        expect_code 0 "$CLTRAIN" $command base.json --device "${name:0:20}"
        expect_text "^device +.* \\([0-9]+:[0-9]+\\), .* usable"
        reject_text generic
    done
    expect_code 0 "$CLTRAIN" train base.json --dry-run
    expect_text '^device ' '^model +mlp, 212 parameters' '^batch ' '^training data +.*256 samples' '^steps +20, ' '^optimizer +adamw' '^memory ' 'nothing was trained'
    expect_absent runs
fi

# --- predict: a classifier and a regression, from every kind of file to every kind of file ---
"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is predicted'; finish; }
layers net.json '{"op": "flatten"}, {"op": "linear", "out": 4}, {"op": "cross_entropy"}'
sed -i 's/"data": {/"data": {"eval_path": "images", "eval_targets": "labels", /; s/"epochs": 1/"steps": 8/; s/"micro_batch": 16/"micro_batch": 10/' net.json
expect_code 0 "$CLTRAIN" train net.json --out net
expect_code 0 "$CLTRAIN" eval net --json eval.json
predict() { expect_code "$@"; }
predict 0 "$CLTRAIN" predict net --input images --out all.csv
expect_text '64 samples predicted in .* written to all.csv'
# 64 samples in micro-batches of 10: the last one is partial. The fraction of correct classes is the one that eval reports.
tail -c +9 labels | od -An -v -tu1 -w1 | tr -d ' ' >truth
expect_awk 'predict and eval do not agree' 'FNR == 1 { f++ } f == 1 { t[FNR - 1] = $1 } f == 2 && FNR > 1 { split($0, c, ","); n++; hits += c[2] == t[c[1]]
    sum = c[4] + c[5] + c[6] + c[7]; if (sum < 0.9999 || sum > 1.0001 || c[3] < 0.25) bad = 1 }
    f == 3 && /"accuracy"/ { split($0, a, /[:,]/); said = a[2] } END { d = hits / n - said; exit bad || n != 64 || d > 1e-6 || d < -1e-6 }' truth all.csv eval.json
cut -d, -f1-3 all.csv >best.csv
predict 0 "$CLTRAIN" predict net # the run's own evaluation data
grep -v '^input\|predicted in' "$out" | cut -d, -f1-3 >own.csv
expect_same best.csv own.csv
gzip -k images
predict 0 "$CLTRAIN" predict net images.gz --out gz.csv
expect_same all.csv gz.csv
# The same pixels as text, with a header that is skipped, and as an npy array of flat rows, because the model flattens its input.
{ echo 'a,b,c' && tail -c +17 images | od -An -v -tu1 -w16 | sed -E 's/^ +//; s/ +/,/g'; } >pixels.csv
predict 0 "$CLTRAIN" predict net pixels.csv --out text.csv
expect_text 'the first line \(a,b,c\) is not a sample and is skipped'
expect_same all.csv text.csv
{ npy_header '|u1' '(64, 16)' && tail -c +17 images; } >flat.npy
predict 0 "$CLTRAIN" predict net flat.npy --out flat.csv
expect_same all.csv flat.csv
expect_code 0 bash -c "sed -n 2,3p pixels.csv | tr , ' ' | '$CLTRAIN' predict net --input - 2>/dev/null"
expect_same <(head -n 3 all.csv) "$out"
expect_code 0 bash -c "'$CLTRAIN' predict net <(sed -n 2,3p pixels.csv) --out pipe.csv" # a pipe can be read only once
expect_same <(cut -d, -f2- pipe.csv) <(head -n 3 text.csv | cut -d, -f2-)
expect_code 2 bash -c "'$CLTRAIN' predict net <(cat flat.npy) --input-type npy"
expect_text 'a pipe or a device, is read as lines of numbers'
predict 0 "$CLTRAIN" predict net images --top-k 2 --out top.jsonl
expect_awk 'top-k is not sorted' '{ if (!/"top":\[\{"class":[0-3],"probability":[0-9.e-]+\},\{"class"/) bad = 1 } END { exit bad || NR != 64 }' top.jsonl
predict 0 "$CLTRAIN" predict net images --out all.npy
expect_awk 'not a header and 64 x 4 numbers' '{ exit $1 != 192 + 64 * 4 * 4 }' <(wc -c <all.npy)
# input that does not fit is reported before a device is opened
predict 2 "$CLTRAIN" predict net --top-k 2 --format npy --out x.npy
expect_text 'all classes'
predict 3 "$CLTRAIN" predict net values.npy --out never.csv
expect_text 'its samples have the shape \(2\), the run was trained on \(4,4\)'
printf '1,2,3\n' >short.csv
predict 3 "$CLTRAIN" predict net short.csv --out never.csv
expect_text "short.csv': line 1 has 3 numbers, a sample of this model has 16"
{ seq -s, 1 15 | tr -d '\n' && echo ',nan'; } >nan.csv
predict 3 "$CLTRAIN" predict net nan.csv --out never.csv
expect_text 'number 16 is not finite'
{ seq -s, 1 15 | tr -d '\n' && echo ',0.5'; } >half.csv
predict 3 "$CLTRAIN" predict net half.csv --out never.csv
expect_text 'trained on inputs of type u8: whole numbers from 0 to 255'
printf 'who knows' >mystery
predict 2 "$CLTRAIN" predict net mystery
expect_text 'give --input-type idx, npy, raw, csv, cifar, images or nifti'
predict 3 "$CLTRAIN" predict net absent.npy
expect_text 'No such file'
expect_absent never.csv ./*.tmp-*
# a model that does not flatten accepts no other shape
layers rows.json '{"op": "linear", "out": 4}, {"op": "reduce", "axes": [1]}, {"op": "cross_entropy"}'
expect_code 0 "$CLTRAIN" train rows.json --out rows train.steps=1
predict 3 "$CLTRAIN" predict rows flat.npy
expect_text 'the model does not flatten them: reshape the array'
# a regression gives values; with a language model the message says what to use
printf '{"model": {"type": "mlp", "hidden": [], "loss": "mse"}, "data": {"type": "npy", "path": "values.npy", "targets": "values.npy", "micro_batch": 2}, "train": {"steps": 200}, "optimizer": {"learning_rate": 0.05}}' >reg.json
expect_code 0 "$CLTRAIN" train reg.json --out reg
predict 0 "$CLTRAIN" predict reg values.npy --out reg.csv
expect_awk 'the regression is not near its targets' 'BEGIN { FS = "," } FNR == 1 { bad = $0 != "sample,y0,y1" } FNR > 1 { e = $2 - (2 * FNR - 3); if (e * e > 0.5) bad = 1 } END { exit bad || FNR != 5 }' reg.csv
expect_code 0 bash -c "'$CLTRAIN' predict reg values.npy --out - 2>/dev/null"
expect_same reg.csv "$out"
expect_absent ./-
{ npy_header '<f4' '(2,)' && printf '\0\0\0\0\0\0\0\0'; } >single.npy
predict 3 "$CLTRAIN" predict reg single.npy
expect_text 'its first dimension, 2, counts samples' 'put a dimension of 1 in front'
predict 2 "$CLTRAIN" predict reg values.npy --top-k 1
expect_text 'top-k is for classifiers'
awk 'BEGIN { for (i = 0; i < 90; i++) printf "the cat sat. " }' >text.txt
printf '{"model": {"type": "gpt", "layers": 1, "heads": 1, "channels": 8, "context": 8}, "data": {"type": "text", "path": "text.txt", "micro_batch": 4}, "train": {"steps": 1}}' >gpt.json
expect_code 0 "$CLTRAIN" train gpt.json --out gpt
predict 2 "$CLTRAIN" predict gpt --input -
expect_text 'cltrain generate gpt' 'predict is for classifiers and regressions'

finish
