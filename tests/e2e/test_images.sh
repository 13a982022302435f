#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 25 ctest-optimise: no
#
# Images from end to end: CIFAR files and a folder of images train a classifier; bad images end the run, or
# are replaced, and evaluations and predictions leave them out; verify names each of them; packs and any
# number of loader threads give the same weights; a page of samples shows them.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

plane() { head -c 1024 /dev/zero | tr '\0' "\\$(printf %03o "$1")"; } # a plane of one value

# record CLASS SHADE: a class is a colour, images of it have different shades.
record() {
    printf "\\x$(printf %02x "$1")"
    plane $((20 + 107 * ($1 % 3))) && plane $((10 + 80 * ($1 / 3))) && plane $((40 + $2))
}
mkdir cifar
for ((k = 0; k < 10; k++)); do for ((i = 0; i < 4; i++)); do record "$k" $((30 * i)); done; done >cifar/data_batch_1.bin
for b in 2 3 4 5; do cp cifar/data_batch_1.bin cifar/data_batch_$b.bin; done
for ((k = 0; k < 10; k++)); do record "$k" 50; done >cifar/test_batch.bin
cat >cifar.json <<'JSON'
{"model": {"type": "mlp", "hidden": [32]}, "optimizer": {"learning_rate": 0.001}, "train": {"steps": 300},
 "data": {"type": "cifar", "path": "cifar", "crop": "pad", "padding": 2, "flip": 0.5, "micro_batch": 20, "scale": 0.00392156862745098,
          "mean": [0.49, 0.48, 0.45], "std": [0.25, 0.24, 0.26]}}
JSON

# --- verify, show, prepare: no device is needed ---
expect_code 0 "$CLTRAIN" data verify cifar.json
expect_text 'training data: cifar: 200 images of 10 classes' '10 of 10 samples are good' '210 good, none bad'
expect_code 0 "$CLTRAIN" data verify cifar
expect_text '200 of 200 samples are good' '210 good, none bad'
expect_code 0 "$CLTRAIN" data show cifar.json --out page.html --samples 200 data.shuffle=false data.crop=center data.flip=0
expect_text 'page.html'
[ "$(grep -c '<figure' page.html)" = 210 ] && pass || fail "the page has $(grep -c '<figure' page.html) samples"
if grep -v 'data:image/png' page.html | grep -q -E 'src=|href=|url\('; then fail 'the page refers to other files'; else pass; fi
grep -q '<b>truck</b>' page.html && pass || fail 'the page does not name classes'

# The page's images are PNG files: they make a folder of images.
n=0
sed -n 's|.*<figure[^>]*>.*base64,\([^"]*\)".*<b>\([a-z]*\)</b>.*|\2 \1|p' page.html | head -n 200 | while read -r class data; do
    n=$((n + 1))
    mkdir -p "set/$class" && printf '%s' "$data" | base64 -d >"set/$class/$n.png"
done
[ "$(find set -name '*.png' | wc -l)" = 200 ] && pass || fail 'the page has other images'
cat >images.json <<'JSON'
{"model": {"type": "mlp", "hidden": [32]}, "optimizer": {"learning_rate": 0.01}, "train": {"steps": 40},
 "data": {"type": "images", "path": "set", "eval_path": "set", "size": 24, "flip": 0.5, "micro_batch": 20, "brightness": 0.1,
          "scale": 0.00392156862745098, "mean": [0.49, 0.48, 0.45], "std": 0.25}}
JSON
expect_code 0 "$CLTRAIN" data verify set images.json
expect_text '200 of 200 samples are good' '600 good, none bad'
expect_code 0 "$CLTRAIN" data prepare set --out set.images
expect_text 'set.images: 200 images of 10 classes'
expect_code 0 "$CLTRAIN" data verify set.images
expect_code 0 "$CLTRAIN" data prepare set --out small.images --resize 16
expect_text 'shorter side is at most 16'
expect_code 2 "$CLTRAIN" data prepare page.html --out x --resize 16
expect_text 'are for a folder of images'

# --- folders of image folders, and of text folders, are reported as such ---
mkdir -p parts texts && cp -r set parts/train && echo text >texts/a.txt
expect_code 3 "$CLTRAIN" data verify parts
expect_text "'parts' holds folders of images for training or evaluation; name one of them: 'parts/train'" '1 of 1 is bad'
expect_code 3 "$CLTRAIN" data verify texts
expect_text "'texts' is not a folder that data verify reads" "'cltrain new texts' writes"
expect_code 3 "$CLTRAIN" data show texts --out page.html
expect_text "'texts' is not a folder that data show reads"

# --- bad images ---
cp -r set bad
: >bad/cat/empty.jpg
head -c 60 "$(find set/dog -name '*.png' | head -n 1)" >bad/dog/cut.png
printf 'version https://git-lfs.github.com/spec/v1\n' >bad/frog/pointer.jpg
expect_code 3 "$CLTRAIN" data verify bad
expect_text 'BAD .*bad/cat/empty.jpg.*empty' 'BAD .*bad/dog/cut.png.*cut off' 'BAD .*bad/frog/pointer.jpg.*git lfs pull' \
    '200 of 203 samples are good' '3 of 203 are bad'
expect_code 3 "$CLTRAIN" data prepare bad --out bad.images
expect_text 'bad/cat/empty.jpg' '--skip-bad'
expect_absent bad.images
expect_code 0 "$CLTRAIN" data prepare bad --out bad.images --skip-bad
expect_text '200 images of 10 classes' '3 images that cannot be decoded were skipped'
printf x | dd of=bad.images bs=1 seek=200 conv=notrunc 2>/dev/null
expect_code 3 "$CLTRAIN" data verify bad.images
expect_text 'checksum'

# --- images that are smaller than the samples made of them ---
expect_code 0 "$CLTRAIN" plan images.json data.size=96 --device generic
expect_text 'about 32 x 32 pixels .* enlarged to 96 x 96.* set data.size=\[32,32\]'
expect_code 0 "$CLTRAIN" plan images.json data.size=96 data.path=small.images --device generic
expect_text 'about 16 x 16 pixels .* set data.size=\[16,16\]'
for size in 24 32 60; do
    expect_code 0 "$CLTRAIN" plan images.json data.size=$size --device generic
    reject_text 'enlarged'
done
expect_code 0 "$CLTRAIN" data verify set
reject_text 'enlarged'
# All of CIFAR's images have one size.
expect_code 0 "$CLTRAIN" plan cifar.json --device generic data.crop=resized data.size=96
expect_text 'about 32 x 32 pixels .* enlarged to 96 x 96.* set data.size=\[32,32\]'
expect_code 0 "$CLTRAIN" plan cifar.json --device generic
reject_text 'enlarged'

# PNG files of 16 bits whose values have only 12 (gray 3000, by Pillow): a warning, since almost nothing of
# them is left in 8 bits; gray 48000 is fine.
mkdir -p bits/a bits/b
base64 -d >bits/a/low.png <<<'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAIEAAAAACx9D0UAAAAE0lEQVR42mPk3sGAApgYGAZCAABq5QDTzSUNHwAAAABJRU5ErkJggg=='
base64 -d >bits/b/full.png <<<'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAIEAAAAACx9D0UAAAAE0lEQVR42mPc3cCAApgYGAZCAACqZQFLs+uDDQAAAABJRU5ErkJggg=='
expect_code 0 "$CLTRAIN" data verify bits
expect_text "image 'bits/a/low.png' is a PNG of 16 bits whose values are below 4096" '2 good, none bad'
expect_code 0 "$CLTRAIN" plan images.json --device generic data.path=bits data.eval_path=[] model.outputs=2 data.micro_batch=2
expect_text "image 'bits/a/low.png' is a PNG of 16 bits"
# Training and evaluation use the same folder; its two such files are reported in one line of each kind.
cp bits/a/low.png bits/b
expect_code 0 "$CLTRAIN" plan images.json --device generic data.path=bits data.eval_path=bits model.outputs=2 data.micro_batch=2
expect_awk 'a warning that comes twice, or not at all' '/ is a PNG of 16 bits/ { n++ } /images are PNG files of 16 bits/ { sum++ }
    END { exit !(n == 1 && sum <= 1) }' "$out"
rm bits/a/low.png bits/b/low.png
cp bits/b/full.png bits/a
expect_code 0 "$CLTRAIN" data verify bits
reject_text 'PNG of 16 bits'

# --- training ---
"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }
expect_code 0 "$CLTRAIN" train cifar.json --out cifar_run
expect_text 'eval at step 300 .* accuracy (9|10)0.00% \| 10 samples'
expect_code 0 "$CLTRAIN" eval cifar_run
expect_text 'accuracy (9|10)0.00%'

# Images are prepared for predictions as for evaluations, also by a run on CIFAR's files.
cp "$(find set/frog -name '*.png' | head -n 1)" frog.png
cp "$(find set/ship -name '*.png' | head -n 1)" ship.jpg # content decides, not the name
expect_code 0 "$CLTRAIN" predict cifar_run frog.png ship.jpg --out predicted.csv
expect_text '2 samples predicted'
[ "$(cut -d, -f4 predicted.csv | tr '\n' ' ')" = 'name frog ship ' ] && pass || fail "predicted: $(cut -d, -f4 predicted.csv | tr '\n' ' ')"
# CIFAR's own files are predicted, too: the run's evaluation data, which lies in the folder of the training
# images, or a named file. The evaluation images are one of each class, in the order of the classes.
for options in '' data.eval_path=cifar/test_batch.bin; do
    # shellcheck disable=SC2086
    expect_code 0 "$CLTRAIN" train cifar.json --out predicting $options
    expect_code 0 "$CLTRAIN" predict predicting --out own.csv
    expect_text "input: the run's evaluation data, cifar" '10 samples predicted'
    right=$(awk -F, 'NR > 1 { n += $1 == $2 } END { print n }' own.csv)
    [ "$right" -ge 9 ] && pass || fail "$right of 10 evaluation images are predicted right"
    expect_code 0 "$CLTRAIN" predict predicting cifar/test_batch.bin --input-type cifar --out named.csv
    expect_same own.csv named.csv
    # files with such names, and folders, are taken as the run's own format
    for given in cifar/test_batch.bin cifar; do
        expect_code 0 "$CLTRAIN" predict predicting "$given" --out named.csv
        expect_same own.csv named.csv
    done
    rm -r predicting
done
# All of several files are predicted, in their order.
head -c $((4 * 3073)) cifar/test_batch.bin >first.bin
tail -c $((6 * 3073)) cifar/test_batch.bin >second.bin
expect_code 0 "$CLTRAIN" predict cifar_run 'data.eval_path=["second.bin","first.bin"]' --out two.csv
expect_text "input: the run's evaluation data, second.bin, first.bin" '10 samples predicted'
expect_code 0 "$CLTRAIN" predict cifar_run --out whole.csv
{ tail -n 6 whole.csv && sed -n 2,5p whole.csv; } | cut -d, -f2- >want.csv
tail -n +2 two.csv | cut -d, -f3- >got.csv
expect_same want.csv got.csv
[ "$(cut -d, -f1,2 two.csv | tr '\n' ' ')" = "file,sample $(for i in 0 1 2 3 4 5; do echo -n "second.bin,$i "; done)first.bin,6 first.bin,7 first.bin,8 first.bin,9 " ] &&
    pass || fail "files and numbers: $(cut -d, -f1,2 two.csv | tr '\n' ' ')"
head -c 50 frog.png >cut.png
expect_code 3 "$CLTRAIN" predict cifar_run cut.png
expect_text 'cut.png.*cut off'

# Photos without classes: all in a folder and its folders, each row with the name of its file, also from
# packs and in JSON; names are quoted where a table needs it. An image that cannot be read ends the command
# with its name, whatever the run does with such images.
mkdir -p 'photos/in, side'
cp frog.png photos/b.png
cp ship.jpg 'photos/a "x".jpg'
cp frog.png 'photos/in, side/c.PNG'
touch photos/notes.txt
expect_code 0 "$CLTRAIN" predict cifar_run photos --out photos.csv
expect_text '3 samples predicted' "'photos': 1 other file is skipped: its name does not end in .jpg"
expect_code 0 "$CLTRAIN" predict cifar_run photos// --out slash.csv
expect_same photos.csv slash.csv
[ "$(grep -c 'skipped:' "$out")" = 1 ] && pass || fail "a file that is skipped is named $(grep -c 'skipped:' "$out") times"
printf '%s\n' 'file,sample,class,name,probability' '"photos/a ""x"".jpg",0,8,ship' 'photos/b.png,1,6,frog' '"photos/in, side/c.PNG",2,6,frog' |
    while read -r line; do grep -q -F -x -e "$line" <(sed 's/\(,frog\|,ship\),.*/\1/' photos.csv | sed 's/,p0.*//') || echo "$line"; done >missing
[ -s missing ] && fail "photos.csv has no line $(head -n 1 missing): $(cat photos.csv)" || pass
expect_code 0 "$CLTRAIN" predict cifar_run photos --out photos.jsonl
[ "$(sed 's/^{"file": *\("[^"]*\(\\"[^"]*\)*"\), *"sample": *\([0-9]*\).*/\3 \1/' photos.jsonl | tr '\n' ' ')" = \
    '0 "photos/a \"x\".jpg" 1 "photos/b.png" 2 "photos/in, side/c.PNG" ' ] && pass || fail "photos.jsonl: $(cat photos.jsonl)"
mkdir nothing
expect_code 0 "$CLTRAIN" train images.json --out images_run train.steps=2 data.on_bad_sample=skip
expect_code 0 "$CLTRAIN" predict images_run set --out classes.csv
expect_text '200 samples predicted'
grep -q '^set/truck/[0-9]*.png,199,' classes.csv && pass || fail "the last row is $(tail -n 1 classes.csv)"
expect_code 0 "$CLTRAIN" predict images_run set.images --out pack.csv
cmp -s <(sed 's|^set/||' classes.csv) pack.csv && pass || fail 'a pack is predicted otherwise than its folder'
expect_code 3 "$CLTRAIN" predict images_run nothing
expect_text 'neither it nor the folders in it have images'
printf 'BM' >photos/cut.bmp
expect_code 3 "$CLTRAIN" predict images_run photos
expect_text "reading image 'photos/cut.bmp'"

# Images of other formats are named in the same way by predict, verify, training and prepare, whatever the
# file's name is.
other() { # NAME BYTES: a file of this format is refused by name, everywhere
    local name=$1 ending
    mkdir -p foreign/a foreign/b
    cp frog.png foreign/b
    for ending in webp heic jpg; do
        rm -f foreign/a/*
        cp frog.png foreign/a
        { printf "$2"; head -c 40 /dev/zero; } >foreign/a/x.$ending
        for command in "predict images_run foreign/a/x.$ending" 'predict images_run foreign' "data verify foreign/a/x.$ending" 'data verify foreign' \
            'train images.json data.path=foreign data.eval_path=[] model.outputs=2 data.micro_batch=3 --out never' 'data prepare foreign --out never'; do
            rm -rf never
            # shellcheck disable=SC2086
            expect_code 3 "$CLTRAIN" $command
            expect_text "foreign/a/x.$ending'?: .*it is $name; JPEG and PNG are read"
        done
        expect_code 3 "$CLTRAIN" data prepare foreign/a/x.$ending --out never
        expect_text "it is $name, not text"
    done
}
other 'a WebP image' 'RIFF\x40\0\0\0WEBPVP8 '
other 'a HEIC image' '\0\0\0\x18ftypheic'
other 'an AVIF image' '\0\0\0\x1cftypavif'
other 'a TIFF image' 'II*\0'
other 'a BMP image' 'BM\x40\0\0\0\0\0\0\0'
other 'a GIF image' 'GIF89a'

weights() { cat "$1"/checkpoints/step_"$2"/*.safetensors | cksum; }
expect_code 0 "$CLTRAIN" train images.json --out one data.workers=1
expect_code 0 "$CLTRAIN" train images.json --out three data.workers=3
expect_code 0 "$CLTRAIN" train images.json --out packed data.path=set.images
expect_code 0 "$CLTRAIN" train images.json --out resumed --max-steps 17
expect_code 0 "$CLTRAIN" train --resume resumed
want=$(weights one 40)
for run in three packed resumed; do
    [ "$(weights $run 40)" = "$want" ] && pass || fail "$run has other weights than with one loader thread"
done

# --- mixtures: training compares with both classes, evaluation with one ---
for mix in data.mixup=0.2 data.cutmix=1; do
    expect_code 0 "$CLTRAIN" train images.json --out "${mix%=*}" $mix
    expect_text 'eval at step 40 .* 200 samples'
    [ "$(weights "${mix%=*}" 40)" != "$want" ] && pass || fail "$mix changes nothing"
done
expect_code 2 "$CLTRAIN" train images.json --out never data.mixup=0.2 model.loss=mse
expect_text 'the data mixes samples'

expect_code 3 "$CLTRAIN" train images.json --out stops data.path=bad data.eval_path=set
expect_text 'reading image .bad/'
expect_code 0 "$CLTRAIN" train images.json --out skips data.path=bad data.eval_path=set data.on_bad_sample=skip
expect_text 'warning: .*bad/cat/empty.jpg' 'samples were replaced by the next ones, since 3 images cannot be read'
[ "$(grep -c 'empty.jpg' "$out")" = 1 ] && pass || fail 'a bad image is named more than once'

# --- evaluations and predictions leave bad images out: no other image is counted twice, or gets a bad
# image's name ---
mkdir -p good/cat good/dog
cp $(ls set/cat/*.png | head -n 7) good/cat
cp $(ls set/dog/*.png | head -n 4) good/dog
cp -r good damaged
head -c 60 "$(ls set/cat/*.png | head -n 1)" >damaged/cat/0.png
figures() { sed -n -E 's/.*"(loss|accuracy|samples)": *([^,}]*).*/\1 \2/p' "$1"; }
for evaluate in 'eval one data.micro_batch=1' 'eval one data.micro_batch=4' 'eval one data.micro_batch=50 train.eval_metrics=true'; do
    # shellcheck disable=SC2086
    expect_code 0 "$CLTRAIN" $evaluate data.eval_path=good --json -
    figures "$out" >good.figures
    # shellcheck disable=SC2086
    expect_code 0 "$CLTRAIN" $evaluate data.eval_path=damaged data.on_bad_sample=skip --json -
    expect_text 'damaged/cat/0.png.*it is skipped' '1 of 12 images cannot be read and were skipped' '"samples_left_out": 1'
    figures "$out" >damaged.figures
    grep -q 'samples 11$' good.figures && pass || fail "the evaluation says $(cat good.figures)"
    expect_same good.figures damaged.figures
done
expect_code 0 "$CLTRAIN" eval one data.eval_path=damaged data.on_bad_sample=skip
expect_text '11 of 12 samples \(1 unreadable, skipped\)'
expect_code 3 "$CLTRAIN" eval one data.eval_path=damaged
expect_text 'reading image .damaged/cat/0.png'
expect_code 0 "$CLTRAIN" train images.json --out in_training train.steps=2 data.eval_path=damaged data.on_bad_sample=skip
expect_text 'eval at step 2 .*11 of 12 samples \(1 unreadable, skipped\)'
expect_code 0 "$CLTRAIN" predict one good --out good.csv
for out_of in bad.csv bad.jsonl; do
    expect_code 3 "$CLTRAIN" predict one damaged --out $out_of
    expect_code 0 "$CLTRAIN" predict one damaged data.on_bad_sample=skip --out $out_of
    expect_text '11 samples predicted' '1 of 12 images cannot be read and were skipped' 'damaged/cat/0.png.*it is skipped'
done
[ "$(wc -l <bad.csv)" = 13 ] && pass || fail "12 images have $(wc -l <bad.csv) lines"
grep -q -E '^damaged/cat/0.png,0,,*$' bad.csv && pass || fail "no empty row: $(head -n 2 bad.csv)"
[ "$(sed 's/[^,]//g' bad.csv | sort -u | wc -l)" = 1 ] && pass || fail 'rows have other numbers of cells'
expect_same <(sed 1d good.csv | cut -d, -f3-) <(sed 1,2d bad.csv | cut -d, -f3-)
grep -q -F '{"file":"damaged/cat/0.png","sample":0,"error":"cannot be read"}' bad.jsonl && pass || fail "$(head -n 1 bad.jsonl)"
expect_code 2 "$CLTRAIN" predict one damaged data.on_bad_sample=skip --out bad.npy
expect_text 'an npy file has no place for an image without a prediction'
expect_code 3 "$CLTRAIN" predict one damaged/cat/0.png data.on_bad_sample=skip
expect_text 'none of the 1 image can be read'
rm -r damaged/dog damaged/cat/[1-9]*.png
expect_code 3 "$CLTRAIN" eval one data.eval_path=damaged data.on_bad_sample=skip
expect_text 'none of the 1 sample can be read'

# --- what does not fit ---
expect_code 2 "$CLTRAIN" train images.json data.mean=[0.1,0.2]
expect_text '2 channels|2 numbers'
expect_code 2 "$CLTRAIN" train images.json data.crop_scale=[0.5,0.1]
expect_text 'smaller one first'
expect_code 3 "$CLTRAIN" train images.json model.outputs=4 --out few
expect_text '10 classes'
mkdir -p other/wolf && cp set/cat/*.png other/wolf/
expect_code 3 "$CLTRAIN" train images.json data.eval_path=other --out other_run
expect_text "class 'wolf'"
finish
