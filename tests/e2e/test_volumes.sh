#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# Volumes from end to end: a model that judges voxel by voxel learns to segment synthetic CT; its
# whole-volume Dice does not depend on how windows cover a volume, and equals the Dice of the masks that
# predict writes; a classifier of whole volumes; bad files are listed.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
make_volumes=$CLTRAIN_BUILD_DIR/tests/make_volumes

"$make_volumes" masks train --count 6 --size 16,20,24 --gz || fail 'no volumes were made'
"$make_volumes" masks val --count 2 --size 16,20,24 --seed 9 || fail 'no volumes were made'
"$make_volumes" classes kinds --count 5 --size 10,10,10 --gz || fail 'no volumes were made'

# Each voxel is judged by its own value, so it does not matter in which window it lies.
cat >seg.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "reshape", "shape": [-1, 1]},
   {"op": "linear", "out": 8}, {"op": "relu"}, {"op": "linear", "out": 2}, {"op": "cross_entropy"}]},
 "data": {"type": "nifti", "path": "train", "eval_path": "val", "patch": [8, 8, 8], "patches_per_volume": 4,
   "mask_classes": 2, "class_names": ["tissue", "lesion"], "window_low": -100, "window_high": 250,
   "flip_axes": [0, 1, 2], "scale_intensity": 0.02,
   "micro_batch": 4},
 "optimizer": {"learning_rate": 0.03}, "train": {"steps": 300, "seed": 3, "eval_every": 150}}
JSON
expect_code 0 "$CLTRAIN" data verify seg.json
expect_text 'train/images/ct000.nii.gz: 16 x 20 x 24 voxels, 2.5 x 0.8 x 0.8 mm, axes RAS, with its mask' 'train/images/ct001.nii.gz: 16 x 15 x 24' \
    '24 patches an epoch of \(1,8,8,8\) f32, masks of 2 classes, voxels of 2.5 x 0.8 x 0.8 mm, RAS' '10 good, none bad'
expect_code 0 "$CLTRAIN" data verify val val/images/ct000.nii
expect_text '16 x 20 x 24 voxels \(depth, height, width\) of i16' '2.5 x 0.8 x 0.8 mm, axes RAS' '3 good, none bad'
expect_code 0 "$CLTRAIN" data verify seg.json 'data.spacing=[4,1,1]' data.orientation=LPS
expect_text 'voxels of 4 x 1 x 1 mm, LPS'
# A volume whose width goes to the left (srow_x begins with -0.8): a warning, unless all have the same
# orientation.
cp -r val mixed
printf '\xcd\xcc\x4c\xbf' | dd of=mixed/images/ct001.nii bs=1 seek=280 conv=notrunc 2>/dev/null
printf '\xcd\xcc\x4c\xbf' | dd of=mixed/masks/ct001.nii bs=1 seek=280 conv=notrunc 2>/dev/null
expect_code 0 "$CLTRAIN" data verify seg.json data.path=mixed
expect_text "in 1 of 2 volumes the axes point in other directions of the body than in the first: the axes of 'mixed/images/ct001.nii' are LAS" 'data.orientation=RAS'
[ "$(grep -c 'axes point in other directions' "$out")" = 1 ] && pass || fail "the output warns $(grep -c 'axes point in other directions' "$out") times"
expect_code 0 "$CLTRAIN" data verify mixed
[ "$(grep -c 'axes point in other directions' "$out")" = 1 ] && pass || fail "of a folder the output warns $(grep -c 'axes point in other directions' "$out") times"
expect_code 0 "$CLTRAIN" data verify seg.json data.path=mixed data.orientation=RAS
reject_text 'otherwise'

# A mask whose spacing differs from its image's, by the pixdim of its header and by its sform: named in a
# warning, in training, too.
cp -r val spaced_masks
printf '\x00\x00\x80\x3f' | dd of=spaced_masks/masks/ct000.nii bs=1 seek=80 conv=notrunc 2>/dev/null
expect_code 0 "$CLTRAIN" data verify spaced_masks
expect_text "of its mask, its pixdim says voxels of 2.5 x 0.8 x 1 mm, its sform 2.5 x 0.8 x 0.8 mm; the sform counts" \
    "warning: data verify: the headers of 1 of 2 volumes contradict themselves: of 'spaced_masks/masks/ct000.nii'"
printf '\x00\x00\x80\x3f' | dd of=spaced_masks/masks/ct000.nii bs=1 seek=280 conv=notrunc 2>/dev/null
expect_code 0 "$CLTRAIN" data verify spaced_masks
expect_text "warning: its mask 'spaced_masks/masks/ct000.nii' has voxels of 2.5 x 0.8 x 1 mm instead of 2.5 x 0.8 x 0.8 mm"
expect_code 0 "$CLTRAIN" data verify seg.json data.path=spaced_masks
expect_text "1 mask has a header that does not match the image: 'spaced_masks/masks/ct000.nii' has voxels of"
[ "$(grep -c '1 mask has a header that does not match' "$out")" = 1 ] && pass || fail "the output warns $(grep -c '1 mask has a header that does not match' "$out") times of a mask"

# A pair of .hdr and .img is read like one file; masks without an image, and other files, are named.
mkdir -p paired/images paired/masks
head -c 348 val/images/ct000.nii >paired/images/ct000.hdr
printf 'ni1\0' | dd of=paired/images/ct000.hdr bs=1 seek=344 conv=notrunc 2>/dev/null
printf '\0\0\0\0' | dd of=paired/images/ct000.hdr bs=1 seek=108 conv=notrunc 2>/dev/null
tail -c +353 val/images/ct000.nii >paired/images/ct000.img
cp val/masks/ct000.nii val/masks/ct001.nii paired/masks/
touch paired/images/notes.txt
expect_code 0 "$CLTRAIN" data verify seg.json data.path=paired data.eval_path=[] data.split=0
expect_text 'ok   paired/images/ct000.hdr: 16 x 20 x 24 voxels' "1 volume from 'paired' \(1 in .hdr and .img\)" \
    "1 mask has no image of the same name and is skipped: 'paired/masks/ct001.nii'" "1 other file or folder is skipped, because it is not a volume: 'paired/images/notes.txt'"
expect_code 0 "$CLTRAIN" data verify paired/images/ct000.img
expect_text 'NIfTI-1 \(a pair of files\)'
mv paired/images/ct000.img paired/images/ct002.img
expect_code 3 "$CLTRAIN" data verify paired
expect_text 'BAD  paired/images/ct000.hdr: .*the voxels, a file of the same name' \
    'BAD  paired/images/ct002.img: .*the header, a file of the same name'

# nnU-Net's names: a file for each channel.
mkdir -p nnunet/imagesTr nnunet/labelsTr
cp val/images/ct000.nii nnunet/imagesTr/case_0000.nii
cp val/masks/ct000.nii nnunet/labelsTr/case.nii
cp val/images/ct000.nii nnunet/imagesTr/case_0001.nii
expect_code 0 "$CLTRAIN" data verify nnunet
expect_text 'ok   nnunet/imagesTr/case_0000.nii: 2 channels of 16 x 20 x 24 voxels' '1 good, none bad'
mv nnunet/imagesTr/case_0001.nii nnunet/imagesTr/case_0002.nii
expect_code 3 "$CLTRAIN" data verify nnunet
expect_text "BAD  nnunet/imagesTr/case_0000.nii: .*the last file of 'case' is _0002, but there are only 2 files"

# --- show: three slices of each sample, with the names of the mask's classes; folders and files without a config, too ---
expect_code 0 "$CLTRAIN" data show seg.json --out seg.html --samples 6
[ "$(grep -c '<figure' seg.html)" = 9 ] && pass || fail "the page has $(grep -c '<figure' seg.html) samples, not 6 and 3 for evaluation"
[ "$(grep -o '<img' seg.html | wc -l)" = 27 ] && pass || fail "the page has $(grep -o '<img' seg.html | wc -l) slices, not three of each sample"
grep -q 'Black is 0 or below, white 1 or above: data.window_low' seg.html && grep -q 'lesion [0-9.]* %' seg.html && pass ||
    fail 'the page has not the window of the config, or no class of a mask'
expect_code 0 "$CLTRAIN" data show train --out folder.html data.volume='[16,16,16]' --window=-160,240
grep -q 'Black is -160 or below, white 240 or above: --window' folder.html && [ "$(grep -c '<figure' folder.html)" = 6 ] && pass ||
    fail 'the page of a folder has not all its volumes, or not the window that was given'
expect_code 0 "$CLTRAIN" data show kinds --out kinds.html
grep -q '<b>sphere</b>.*depth 5' kinds.html && pass || fail 'the page does not name classes of volumes'
expect_code 0 "$CLTRAIN" data show val/images/ct000.nii --out single.html
# Numbers without a header: two volumes of 2 x 2 x 4 with values of -1000 (0xc47a0000) and 0.
{ for _ in 1 2 3 4 5 6 7 8; do printf '\0\0\x7a\xc4\0\0\0\0'; done; head -c 64 /dev/zero; } >numbers.raw
expect_code 0 "$CLTRAIN" data show numbers.raw --out raw.html 'data.shape=[2,2,4]'
grep -q 'Black is -1000 or below, white 0 or above.*soft tissue' raw.html && [ "$(grep -o '<img' raw.html | wc -l)" = 6 ] && pass ||
    fail 'raw volumes are not shown as slices'
# A file whose kind cannot be recognised: data.type decides. A config that is not well-formed is reported as
# such.
cp numbers.raw numbers
expect_code 2 "$CLTRAIN" data show numbers --out never.html 'data.shape=[2,2,4]'
expect_text 'neither its name nor its content says what it is; give data.type=idx'
expect_code 0 "$CLTRAIN" data show numbers --out raw2.html data.type=raw 'data.shape=[2,2,4]'
expect_same <(grep -o '<img[^>]*>' raw.html) <(grep -o '<img[^>]*>' raw2.html)
expect_code 2 "$CLTRAIN" data show numbers --out never.html data.type=rwa
expect_text 'data.type.*rwa'
echo '"data": {' >cut.json
expect_code 2 "$CLTRAIN" data show cut.json --out never.html
expect_text 'cut.json:1:'
expect_code 2 "$CLTRAIN" data show numbers.raw --out never.html 'data.shape=[16]'
expect_text 'x is \(16\) f32, which cannot be shown as a picture'
expect_absent never.html
expect_code 2 "$CLTRAIN" data show numbers.raw --out never.html 'data.shape=[2,2,4]' --window=5,5
expect_text "'5,5' is not a window"

"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }
expect_code 0 "$CLTRAIN" train seg.json --out run
expect_text '^step 300/300 .* samples/s' # the voxels of a mask are not tokens
reject_text 'tok/s'
expect_text 'Dice 0\.[5-9][0-9]* of 2 volumes' # the noise allows no more to a model without neighbours
[ "$(grep -c '"eval_volume_dice":0\.[0-9]*,"eval_volumes":2,"eval_volume_dice_of":\[' run/metrics.jsonl)" = 2 ] && pass ||
    fail 'metrics.jsonl has no Dice of two evaluations'

# The overlap of windows changes nothing for such a model, nor does a single window for a whole volume (the
# direct evaluation).
dice_of() { sed -n 's/.*"volume_dice": *\([0-9.]*\).*/\1/p' "$1"; }
expect_code 0 "$CLTRAIN" eval run --json quarter.json
for way in data.window_overlap=0 data.window_overlap=0.7 data.orientation=LPI data.orientation=SRA data.window_weights=gaussian 'data.patch=[16,20,24]' data.micro_batch=3; do
    expect_code 0 "$CLTRAIN" eval run "$way" --json other.json
    [ -n "$(dice_of other.json)" ] && [ "$(dice_of other.json)" = "$(dice_of quarter.json)" ] && pass ||
        fail "$way: Dice $(dice_of other.json) instead of $(dice_of quarter.json)"
done
expect_code 0 "$CLTRAIN" eval run train.eval_batches=1
expect_text 'of 1 volume '
expect_code 0 "$CLTRAIN" eval run --on train
expect_text 'of 6 volumes'

# Masks: with the volume's geometry, the same for every way of covering it, and with the Dice that eval
# reports.
mkdir -p again/images again/masks spaced
for name in ct000 ct001; do
    expect_code 0 "$CLTRAIN" predict run val/images/$name.nii --out again/masks/$name.nii.gz
    expect_text 'voxels in .* windows? predicted' 'class 1 lesion: [0-9]+ voxels'
    expect_code 0 "$CLTRAIN" predict run val/images/$name.nii --out other.nii.gz data.window_overlap=0.6 data.window_weights=gaussian
    cmp -s <(gzip -dc other.nii.gz) <(gzip -dc again/masks/$name.nii.gz) && pass || fail "$name: the windows changed the mask"
    expect_code 0 "$CLTRAIN" predict run val/images/$name.nii --out other.nii.gz data.orientation=PIR
    cmp -s <(gzip -dc other.nii.gz) <(gzip -dc again/masks/$name.nii.gz) && pass || fail "$name: turning the volume changed the mask"
    expect_code 0 "$CLTRAIN" predict run val/images/$name.nii --out spaced/$name.nii.gz 'data.spacing=[0.7,2,1.3]'
    [ "$(gzip -dc spaced/$name.nii.gz | wc -c)" = "$(gzip -dc again/masks/$name.nii.gz | wc -c)" ] && pass || fail "$name: the mask has another size"
    # geometry: pixdim and srow are those of the image
    for place in '76 32' '252 96'; do
        cmp -s <(tail -c +$((${place% *} + 1)) val/images/$name.nii | head -c "${place#* }") \
            <(gzip -dc again/masks/$name.nii.gz | tail -c +$((${place% *} + 1)) | head -c "${place#* }") && pass ||
            fail "$name: the mask has another geometry"
    done
    cp val/images/$name.nii again/images/
done
expect_code 0 "$CLTRAIN" eval run data.eval_path=again
expect_text 'Dice 1(\.0*)? of 2 volumes' # its own masks

# Names of classes from dataset.json, as nnU-Net writes it.
echo '{"labels": {"background": 0, "nodule": 1}}' >train/dataset.json
expect_code 0 "$CLTRAIN" train seg.json data.class_names=[] --max-steps 2 --out labels
rm train/dataset.json # the run has kept them
expect_code 0 "$CLTRAIN" eval labels --classes
expect_text 'nodule'
expect_code 0 "$CLTRAIN" predict labels val/images/ct000.nii --out other.nii.gz
expect_text 'class [01] (background|nodule): [0-9]+ voxels'

# Masks of 0 and 255: a message names the key that makes two classes of them; predicted masks have these
# values again.
cp -r val white
for name in ct000 ct001; do
    { head -c 352 val/masks/$name.nii; tail -c +353 val/masks/$name.nii | LC_ALL=C tr '\001' '\377'; } >white/masks/$name.nii
done
expect_code 0 "$CLTRAIN" data verify white
expect_text "warning: data verify: of the classes 0 to 255 only 2 occur in the masks of 'white': 0, 255; .*data.mask_values=\[0,255\]"
expect_code 3 "$CLTRAIN" train seg.json data.path=white data.mask_classes=0 data.eval_path=[] data.split=0 --dry-run
expect_text 'only 2 occur .*: 0, 255' 'they have voxels of class 255, the model takes 0 to 1'
expect_code 3 "$CLTRAIN" data verify seg.json data.eval_path=white
expect_text 'BAD  white/masks/ct000.nii: .* is 255, a class beyond the last one, 1; .*data.mask_values'
expect_code 0 "$CLTRAIN" data verify seg.json data.path=white data.eval_path=white 'data.mask_values=[0,255]'
expect_text 'masks of 2 classes'
reject_text 'only 2 occur'
mkdir -p white_again/images white_again/masks
cp val/images/*.nii white_again/images/
for name in ct000 ct001; do
    expect_code 0 "$CLTRAIN" predict run val/images/$name.nii --out white_again/masks/$name.nii.gz 'data.mask_values=[0,255]'
    cmp -s <(gzip -dc again/masks/$name.nii.gz | tail -c +353 | LC_ALL=C tr '\001' '\377') \
        <(gzip -dc white_again/masks/$name.nii.gz | tail -c +353) && pass || fail "$name: the mask does not hold 0 and 255"
done
expect_code 0 "$CLTRAIN" eval run data.eval_path=white_again 'data.mask_values=[0,255]'
expect_text 'Dice 1(\.0*)? of 2 volumes'

# A pair of files is predicted like one file, and its mask is one file with the same geometry.
cp paired/images/ct000.hdr pair.hdr
cp paired/images/ct002.img pair.img
expect_code 0 "$CLTRAIN" predict run pair.img --out pair_mask.nii.gz
cmp -s <(gzip -dc pair_mask.nii.gz | tail -c +353) <(gzip -dc again/masks/ct000.nii.gz | tail -c +353) && pass ||
    fail 'the mask of a pair is another one'
expect_code 0 "$CLTRAIN" data verify pair_mask.nii.gz
expect_text '16 x 20 x 24 voxels .*, NIfTI-1, .*2.5 x 0.8 x 0.8 mm, axes RAS'

expect_code 2 "$CLTRAIN" predict run val/images/ct000.nii val/images/ct001.nii --out two.nii.gz
expect_text 'one volume gives one mask'
expect_code 2 "$CLTRAIN" predict run val/images/ct000.nii --out mask.csv
expect_text 'this run predicts masks of volumes; name one volume and --out MASK.nii.gz'
expect_code 2 "$CLTRAIN" predict run val/images
expect_text "this run predicts masks of volumes, and 'val/images' is a folder; name one volume and --out MASK.nii.gz"
expect_code 3 "$CLTRAIN" predict run seg.json --out no.nii.gz
expect_text 'it is not a NIfTI file'

# Patches of a resumed run continue as if it had not stopped.
expect_code 0 "$CLTRAIN" train seg.json --out whole train.steps=40 data.workers=1
expect_code 0 "$CLTRAIN" train seg.json --out half train.steps=40 data.workers=3 checkpoint.every=20 data.cache_mb=0
expect_code 0 "$CLTRAIN" train --resume half/checkpoints/step_20 train.steps=40 --out rest
for other in half rest; do
    cmp -s whole/checkpoints/step_40/model.safetensors $other/checkpoints/step_40/model.safetensors && pass ||
        fail "the weights of '$other' are others than those of the whole run"
done

# A net that uses neighbouring voxels, so that windows matter: with gaussian weights the result comes close
# to that of the whole volume.
cat >conv.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "conv3d", "out": 8, "kernel": [3], "padding": [1]}, {"op": "relu"},
   {"op": "conv3d", "out": 8, "kernel": [3], "padding": [1]}, {"op": "relu"}, {"op": "conv3d", "out": 2, "kernel": [1]},
   {"op": "cross_entropy"}]},
 "data": {"type": "nifti", "path": "train", "eval_path": "val", "patch": [8], "patches_per_volume": 4, "mask_classes": 2,
   "window_low": -100, "window_high": 250, "flip_axes": [0, 1, 2], "micro_batch": 4},
 "optimizer": {"learning_rate": 0.01}, "train": {"steps": 150, "seed": 3}}
JSON
expect_code 0 "$CLTRAIN" train conv.json --out conv_run
expect_code 0 "$CLTRAIN" eval conv_run 'data.patch=[16,20,24]' --json direct.json
expect_code 0 "$CLTRAIN" eval conv_run data.window_weights=gaussian data.window_overlap=0.5 --json windows.json
awk -v a="$(dice_of direct.json)" -v b="$(dice_of windows.json)" 'BEGIN { exit !(a > 0.85 && b > 0.85 && a - b < 0.03 && b - a < 0.03) }' &&
    pass || fail "Dice $(dice_of direct.json) of whole volumes, $(dice_of windows.json) by windows"

expect_code 0 "$CLTRAIN" predict conv_run val/images/ct001.nii --out conv_mask.nii.gz
expect_text '16 x 15 x 24 voxels in 36 windows' 'class 1: [1-9]'

# Classes: whole volumes, brought to one size, with the names of their folders.
cat >kinds.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "flatten"}, {"op": "linear", "out": 16}, {"op": "relu"},
   {"op": "linear", "out": 2}, {"op": "cross_entropy"}]},
 "data": {"type": "nifti", "path": "kinds", "split": 0.2, "volume": [8, 8, 8], "volume_fit": "resize", "window_low": -100,
   "window_high": 250, "micro_batch": 4},
 "optimizer": {"learning_rate": 0.003}, "train": {"steps": 200}}
JSON
expect_code 0 "$CLTRAIN" train kinds.json --out kinds_run
expect_text 'acc 100.0%' '2 samples'
expect_code 0 "$CLTRAIN" predict kinds_run kinds/shell/ct000.nii.gz kinds/sphere/ct004.nii.gz
expect_text 'file,sample,class,name,probability' 'shell/ct000.nii.gz,0,' 'sphere/ct004.nii.gz,1,'
expect_code 0 "$CLTRAIN" predict kinds_run kinds/*/*.nii.gz --out single.csv
expect_code 0 "$CLTRAIN" predict kinds_run data.eval_path=kinds data.flip_axes='[0,1,2]' data.shift_intensity=2 --out folder.csv
cmp -s single.csv folder.csv && pass || fail 'a folder is predicted otherwise than its files'
# Volumes without classes: all in a folder, each row with the name of its file.
mkdir -p unknown/more
cp kinds/sphere/ct001.nii.gz unknown
cp kinds/shell/ct002.nii.gz unknown/more
touch unknown/notes.txt
expect_code 0 "$CLTRAIN" predict kinds_run unknown/ --out unknown.csv
expect_text "'unknown/?': 1 other file or folder is skipped, because it is not a volume: 'unknown/notes.txt'"
reject_text 'data\.path'
[ "$(cut -d, -f1-4 unknown.csv | tr '\n' ' ')" = \
    'file,sample,class,name unknown/ct001.nii.gz,0,1,sphere unknown/more/ct002.nii.gz,1,0,shell ' ] && pass || fail "unknown.csv: $(cat unknown.csv)"
expect_code 2 "$CLTRAIN" predict kinds_run kinds/shell/ct000.nii.gz --out mask.nii.gz
expect_text 'masks are predicted by models that were trained on volumes with masks'

# Every bad file is named with its reason, and the command ends with 3.
cp -r val bad
cp bad/images/ct000.nii bad/images/lonely.nii
head -c 5000 val/images/ct000.nii >bad/images/short.nii
cp val/masks/ct000.nii bad/masks/short.nii
cp val/images/ct000.nii bad/images/other.nii
cp val/masks/ct001.nii bad/masks/other.nii
cp val/images/ct000.nii bad/images/classes.nii
cp val/images/ct000.nii bad/masks/classes.nii
expect_code 3 "$CLTRAIN" data verify seg.json data.eval_path=bad
expect_text "BAD  bad/images/lonely.nii: .* has no mask" "BAD  bad/images/short.nii: .* cut off" \
    'BAD  bad/masks/other.nii: .* they must be of one size' 'BAD  bad/masks/classes.nii: .*voxel 0,0,.* is ' \
    'ok   bad/images/ct001.nii' '4 of 12 are bad'
expect_code 3 "$CLTRAIN" train seg.json data.path=bad --out never
expect_text 'classes|short|other|lonely'
expect_code 0 "$CLTRAIN" train seg.json data.path=bad data.on_bad_sample=skip train.steps=20 --out skipped
expect_text 'skipped \(data.on_bad_sample skip\)' 'the next volume takes its place'
finish
