#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 40 ctest-optimise: no
#
# cltrain new: for each kind of data a config that trains as it is, what it says about the data, what it refuses. It never overwrites a
# file.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

device=yes
"$CLTRAIN" devices >/dev/null 2>&1 || device=no
[ $device = yes ] || note_skip 'no OpenCL device: the configs are written, not trained'

# new_config OUT TYPE MODEL ARGUMENT...: the config is written, has this data and model, and trains.
new_config() {
    local file=$1 type=$2 model=$3
    shift 3
    expect_code 0 "$CLTRAIN" new "$@" --out "$file"
    expect_text "$file is written" "train $file"
    cp "$out" told
    expect_code 0 "$CLTRAIN" config --print "$file"
    expect_text "^    \"type\": \"$type\"" "^    \"type\": \"$model\""
    if [ $device = yes ]; then
        expect_code 0 "$CLTRAIN" train "$file" --dry-run
        expect_text 'config and plan are good'
        expect_code 0 "$CLTRAIN" train "$file" --max-steps 3 --out "run-$file"
        expect_text '^step 3/'
    fi
    cp told "$out"
}

# --- tables: the kind of target decides the loss ---
awk 'BEGIN { srand(5); print "rooms,area,price"; for (i = 0; i < 120; i++) { a = rand(); b = rand(); printf "%.4f,%.4f,%.4f\n", a, b, 2 * a - b } }' >houses.csv
new_config houses.json csv mlp houses.csv
expect_text "target 'price': numbers" 'a regression' '\-\-target'
grep -q '"loss": "mse"' houses.json && pass || fail 'the loss of a regression'
awk 'BEGIN { srand(5); print "a;b;kind"; for (i = 0; i < 90; i++) { a = rand(); b = rand(); printf "%.4f;%.4f;%s\n", a, b, a < .3 ? "red" : a < .6 ? "blue" : "green" } }' >words.csv
new_config words.json csv mlp words.csv
expect_text '3 classes' 'which classifies'
awk 'BEGIN { srand(5); print "a,k,b"; for (i = 0; i < 90; i++) { a = rand(); printf "%.4f,%d,%.4f\n", a, a * 3, rand() } }' >middle.csv
new_config middle.json csv mlp middle.csv --target k
expect_text "target 'k': whole numbers, largest 2" 'which classifies'
grep -q '"target": "k"' middle.json && pass || fail 'the target is not in the config'
awk 'BEGIN { srand(5); print "a,n"; for (i = 0; i < 90; i++) { a = rand(); printf "%.4f,%d\n", a, 200 + a * 300 } }' >counts.csv
new_config counts.json csv mlp counts.csv # many whole numbers are values
expect_text 'a regression'
awk 'BEGIN { srand(5); print "a,n"; for (i = 0; i < 90; i++) printf "%.4f,%d\n", rand(), 10 * int(rand() * 6) }' >tens.csv
new_config tens.json csv mlp tens.csv # few whole numbers, but not each of them
expect_text 'a regression' 'taken for values, not for classes'
head -n 4 houses.csv >three.csv
new_config three.json csv mlp three.csv
expect_text 'too few lines to keep some for evaluation'
expect_code 3 "$CLTRAIN" new houses.csv --target area2 --out none.json
expect_text "there is no column 'area2'; did you mean 'area'"

# columns that teach nothing are left out, and words for missing values among numbers are named
awk 'BEGIN { srand(5); print "PassengerId,line,rooms,city,name,const,empty,price"; for (i = 0; i < 60; i++) { a = rand()
    printf "%d,%d,%s,%s,person %d,7,,%.4f\n", i * 3 + 5, i + 1, i % 9 ? a : i ? "?" : "NA", i % 7 ? "c" i % 3 : "-", i, 2 * a } }' >messy.csv
new_config messy.json csv mlp messy.csv
expect_text "taken for blank cells \(data.blank\): 'NA', '\?'" "column 'PassengerId' is dropped \(data.drop_columns\): it identifies the lines" \
    "column 'line' is dropped .*: it counts the lines" "column 'name' is dropped .*: hardly any of its words is there twice" \
    "column 'const' is dropped .*: all of its cells are the same" "column 'empty' is dropped .*: all of its cells are blank"
expect_code 0 grep -F '"drop_columns": ["PassengerId", "line", "name", "const", "empty"]' messy.json
expect_code 0 grep -F '"blank": ["NA", "?"]' messy.json
sed '20s/,[^,]*$/,NA/' messy.csv >hole.csv # a target cannot be made up
expect_code 3 "$CLTRAIN" new hole.csv --out none.json
expect_text "line 20, column 'price': the target is missing; remove the line"
printf 'x,y\n%s' "$(for i in {1..30}; do echo "$i,$((i * 2))"; done)" >count.csv # the only input is none to leave out
new_config count.json csv mlp count.csv
reject_text 'is dropped'
expect_text 'taken for values, not for classes'
# numbers that are taken for classes: 90 kinds in 120 lines, by a training and by new, where one cell is no number
awk 'NR == 1 { print; next } { split($0, c, ","); printf "%s,%s,%d\n", c[1], c[2], 1000 + NR % 90 }' houses.csv >kinds.csv
expect_code 0 "$CLTRAIN" new kinds.csv --out kinds_of.json
sed '9s/,[^,]*$/,"1,008"/' kinds.csv >comma.csv
expect_code 0 "$CLTRAIN" new comma.csv --out comma.json
expect_text 'different targets in 108 lines are many for classes' "line 9, column 'price': '1,008' \(does the comma separate thousands\?"
if [ $device = yes ]; then
    expect_code 0 "$CLTRAIN" train kinds_of.json --dry-run model.loss=cross_entropy
    expect_text '^warning: 108 samples have [0-9]* different targets, and the loss .* takes each of them for a class; .* model.loss=mse'
    expect_code 0 "$CLTRAIN" train kinds_of.json --dry-run
    reject_text '^warning'
    expect_code 0 "$CLTRAIN" train words.json --dry-run
    reject_text '^warning'
fi

# --- keys of the command line stand in the config, and are checked as train does ---
new_config keys.json csv mlp messy.csv train.steps=40 'model.hidden=[8]' precision.mode=f32 'data.drop_columns=["name", "empty"]' data.micro_batch=4
expect_text 'batches of 4'
reject_text 'is dropped'
expect_code 0 grep -F '"steps": 40' keys.json
reject_epochs() { grep -q '"epochs"' "$1" && fail "$(cat "$1")" || pass; }
reject_epochs keys.json
expect_code 0 "$CLTRAIN" config --print keys.json
expect_text '"mode": "f32"' '"micro_batch": 4' '"warmup": 2'
new_config by_key.json csv mlp middle.csv data.target=k data.split=0
expect_text "target 'k'" 'which classifies'
grep -q eval_every by_key.json && fail 'evaluations without data for them' || pass
for word in train.stps=5 data.targt=k data.fill=middle optimizer.learning_rate=-1 model.hidden=wide; do
    expect_code 2 "$CLTRAIN" new messy.csv "$word" --out none.json
    expect_text "${word%%=*}: "
done
expect_absent none.json

# --- texts ---
for i in {1..40}; do echo "line $i of a text about nothing in particular, which goes on for a while"; done >story.txt
mkdir -p texts/more && cp story.txt texts/a.txt && cp story.txt texts/more/b.md
for i in {1..40}; do printf '{"id": "a rather long id of record number %d, longer than the body", "body": "record %d of a text"}\n' "$i" "$i"; done >records.jsonl
new_config story.json text gpt story.txt
expect_text 'tokenizer: bytes' 'a small GPT over bytes'
new_config texts.json text gpt texts
new_config pattern.json text gpt 'texts/*.txt'
new_config records.json text gpt records.jsonl
expect_text "the text of a record is 'body'"
grep -q '"json_key": "body"' records.json && pass || fail 'the member is not in the config'
new_config ids.json text gpt records.jsonl --json-key id
{ printf '[' && sed '$!s/$/,/' records.jsonl | tr -d '\n' && echo ']'; } >listed.json
new_config from_list.json text gpt listed.json
expect_text "the text of a record is 'body'"
new_config steps.json text gpt story.txt train.steps=30 model.layers=1
expect_code 0 grep -F '"warmup": 1' steps.json
# records that are not plain text: the data.type that reads them is named; --json-key asks for one member
# alone
# refused_record WORDS RECORD
refused_record() {
    for _ in {1..40}; do echo "$2"; done >some.jsonl
    expect_code 2 "$CLTRAIN" new some.jsonl --out some.json
    expect_text "'some.jsonl' holds $1 reads" 'docs/data.md'
    expect_absent some.json
    { echo '[' && sed '$!s/$/,/' some.jsonl && echo ']'; } >listed.json # the same records as one list of JSON
    expect_code 2 "$CLTRAIN" new listed.json --out some.json
    expect_text "'listed.json' holds $1 reads"
}
refused_record 'conversations, which data.type=chat' '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}'
refused_record 'prompts and completions, which data.type=chat' '{"prompt": "Hi", "completion": "Hello"}'
refused_record 'words with labels, which data.type=annotated data.task=tokens' '{"tokens": ["Ann", "sings"], "tags": ["B-PER", "O"]}'
refused_record 'texts with labels, which data.type=annotated data.task=class' '{"text": "a fine film that I would see again", "label": "good"}'
new_config labelled.json text gpt some.jsonl --json-key text
{ echo text,sentiment && for i in {1..40}; do echo "\"film $i, it is one that I would see again\",$((i % 2 == 0))"; done; } >reviews.csv
expect_code 0 "$CLTRAIN" new reviews.csv
expect_text 'most lines have a cell of prose' 'data.type=annotated'
expect_code 0 "$CLTRAIN" new words.csv --out words_again.json
reject_text 'prose'
mkdir -p parts && : >parts/0.jsonl && cp records.jsonl parts/1.jsonl # the first file of a folder may be empty
new_config parts.json text gpt parts
expect_text "the text of a record is 'body'"
mkdir -p mixed && printf '{"note": "a record among plain texts"}\n' >mixed/0.txt && cp story.txt mixed/1.txt
new_config mixed.json text gpt mixed
reject_text 'the text of a record is'
# the same config as data prepare writes; if the text is short, it has few steps
expect_code 0 "$CLTRAIN" data prepare story.txt --out shards
mv shards/gpt.json prepared.json
new_config tokens.json tokens gpt shards
expect_same tokens.json prepared.json

# --- images and volumes ---
if [ -x "$CLTRAIN_BUILD_DIR/tests/make_images" ]; then
    "$CLTRAIN_BUILD_DIR/tests/make_images" set --count 8 --classes 2 --size 24,32 || fail 'no images were made'
    mkdir split && cp -r set split/train && cp -r set split/val
    "$CLTRAIN_BUILD_DIR/tests/make_images" large --count 8 --classes 2 --size 100,120 || fail 'no images were made'
    new_config set.json images resnet set
    expect_text 'images of 2 classes' 'as \(3,24,24\)' 'shorter side of the images is about 24 pixels' 'no images for evaluation'
    grep -q '"stem": "cifar"' set.json && pass || fail 'the stem of small images'
    new_config split.json images resnet split
    expect_text "from 'split/train'"
    reject_text 'no images for evaluation'
    grep -q '"eval_path": "split/val"' split.json && pass || fail 'the folder of evaluation images'
    new_config large.json images resnet large
    expect_text 'as \(3,128,128\)'
    expect_code 0 "$CLTRAIN" data prepare set --out set.images
    new_config pack.json images resnet set.images
    expect_code 2 "$CLTRAIN" new "$(find set -type f | head -n 1)" --out none.json
    expect_text 'is one image; name the folder'
else
    note_skip 'make_images was not built'
fi
if [ -x "$CLTRAIN_BUILD_DIR/tests/make_volumes" ]; then
    "$CLTRAIN_BUILD_DIR/tests/make_volumes" masks ct --count 4 --size 16,20,24 --gz || fail 'no volumes were made'
    "$CLTRAIN_BUILD_DIR/tests/make_volumes" classes kinds --count 4 --size 10,12,14 --gz || fail 'no volumes were made'
    new_config ct.json nifti unet3d ct
    expect_text '4 volumes with masks' 'intensities: nearly all lie from' 'patches of 16x8x16'
    "$CLTRAIN_BUILD_DIR/tests/make_volumes" masks two --count 2 --size 8,9,12 || fail 'no volumes were made'
    new_config two.json nifti unet3d two
    expect_text 'too few to keep some for evaluation' 'patches of 8x8x8'
    new_config kinds.json nifti cnn3d kinds
    expect_text '8 volumes with a folder for each class' 'resized to 8x8x8'
    expect_code 2 "$CLTRAIN" new ct/images/ct000.nii.gz --out none.json
    expect_text 'is one volume; name the folder'
else
    note_skip 'make_volumes was not built'
fi

# --- arrays: npy and idx files whose targets are found by name, or given ---
npy() { # DTYPE SHAPE: the header of an npy file, version 1
    local text="{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$text"
}
{ npy '|u1' '40, 4' && for i in {1..160}; do printf "\\x$(printf %02x $((i % 200)))"; done; } >x_train.npy
{ npy '|u1' '40,' && for i in {0..39}; do printf "\\x$(printf %02x $((i % 3)))"; done; } >y_train.npy
new_config arrays.json npy mlp x_train.npy
expect_text "targets: .* from 'y_train.npy'" 'which classifies'
grep -q '"scale"' arrays.json && fail 'data.scale is written, which the default knows better' || pass
cp x_train.npy x_test.npy && cp y_train.npy y_test.npy
new_config tested.json npy mlp x_train.npy
expect_text "evaluation: 'x_test.npy' with 'y_test.npy'"
cp x_train.npy alone.npy
expect_code 2 "$CLTRAIN" new alone.npy
expect_text 'name the file of its targets, too'
new_config given.json npy mlp alone.npy y_train.npy
{ printf '\0\0\x08\x02\0\0\0\x20\0\0\0\x04' && head -c 128 x_train.npy; } >train-images-idx3-ubyte
{ printf '\0\0\x08\x01\0\0\0\x20' && for i in {0..31}; do printf "\\x$(printf %02x $((i % 4)))"; done; } >train-labels-idx1-ubyte
new_config idx.json idx mlp train-images-idx3-ubyte
expect_text "from 'train-labels-idx1-ubyte'"

# --- the name of the config; nothing is overwritten; what is refused ---
rm -f houses.json
expect_code 0 "$CLTRAIN" new houses.csv
expect_file houses.json
cp houses.json before.json
expect_code 2 "$CLTRAIN" new houses.csv
expect_text "'houses.json' exists already and is not overwritten" '\-\-out FILE'
expect_same houses.json before.json
mkdir folder.json
expect_code 2 "$CLTRAIN" new houses.csv --out folder.json
expect_code 8 "$CLTRAIN" new houses.csv --out no/such/folder/a.json
expect_code 3 "$CLTRAIN" new nothing.csv
expect_text "'nothing.csv': there is no such file or folder"
expect_code 2 "$CLTRAIN" new story.txt --target price --out none.json
expect_text '\-\-target does not belong'
expect_code 2 "$CLTRAIN" new houses.csv --tokenizer bytes --out none.json
expect_code 2 "$CLTRAIN" new before.json --out none.json
expect_text 'to train with a config: cltrain train before.json'
head -c 4000 /dev/zero >zeros.dat
expect_code 3 "$CLTRAIN" new zeros.dat --out none.json
expect_text 'is not text, and neither its content nor its name'
mkfifo pipe.csv
expect_code 3 "$CLTRAIN" new pipe.csv --out none.json
expect_text 'not a regular file'
mkdir -p flat/images flat/masks
printf '\x89PNG\r\n\x1a\n' | tee flat/images/a.png >flat/masks/a.png
expect_code 3 "$CLTRAIN" new flat --out none.json
expect_text 'holds flat images and masks'
cp houses.csv ./-dash.csv
rm -f data.json
expect_code 0 "$CLTRAIN" new -- -dash.csv
expect_text '^data.json is written'
if [ $device = yes ]; then
    expect_code 2 "$CLTRAIN" new run-counts.json --out none.json
    expect_text 'cltrain train --resume run-counts.json'
fi
expect_code 2 "$CLTRAIN" new
expect_absent none.json nothing.json
finish
