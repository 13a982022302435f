#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 16
#
# What a newcomer finds around the program: caches, which can be listed and cleared by name; data sets, downloaded by name, with
# instructions if there is no network; shipped configs, which can be used as they are, or say how to get their data.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/shipped_lib.sh"
kept=("HOME=$HOME" "XDG_CACHE_HOME=${XDG_CACHE_HOME:-}" "CLTRAIN_CACHE_DIR=${CLTRAIN_CACHE_DIR:-}" "POCL_CACHE_DIR=${POCL_CACHE_DIR:-}")
export HOME=$work/home XDG_CACHE_HOME='' COLUMNS=80
unset CLTRAIN_CACHE_DIR POCL_CACHE_DIR
mkdir home

# --- cltrain cache ---
expect_code 0 "$CLTRAIN" cache
expect_text "programs +empty  $work/home/.cache/cltrain/programs" "pocl +empty  $work/home/.cache/pocl/kcache" 'cltrain cache --clear'
expect_awk 'a line of the list is longer than 80 columns' '!/\// && length > 80 { exit 1 }' "$out"
expect_absent home/.cache
mkdir -p home/.cache/cltrain/{programs,answers,tuning} home/.cache/pocl/kcache/AB/CD home/.nv/ComputeCache
chmod -R go= home/.cache
printf 12345 >home/.cache/cltrain/programs/0123456789abcdef.program
printf 12 >home/.cache/cltrain/tuning/device.json
printf '{}' >home/.cache/cltrain/answers/device.json
printf 1234567 >home/.cache/pocl/kcache/AB/CD/program.bc
printf 1 >home/.nv/ComputeCache/index
expect_code 0 "$CLTRAIN" cache
expect_text 'programs +5 B' 'tuning +2 B' 'pocl +7 B' 'nvidia +1 B' '^9 B of cltrain'
expect_code 0 "$CLTRAIN" cache --json
cp "$out" cache.json
expect_text '"name": "pocl"' '"owner": "driver"' '"bytes": 7' '"cleared": false'
if command -v python3 >/dev/null; then expect_code 0 python3 -m json.tool cache.json; fi
expect_code 0 "$CLTRAIN" cache --clear tuning
expect_text 'tuning +2 B in 1 file' 'removed: 2 B in 1 file'
expect_absent home/.cache/cltrain/tuning
expect_file home/.cache/cltrain/programs/0123456789abcdef.program home/.cache/pocl/kcache/AB/CD/program.bc
expect_code 0 "$CLTRAIN" cache --clear
expect_absent home/.cache/cltrain/programs home/.cache/cltrain/answers
expect_file home/.cache/pocl/kcache/AB/CD/program.bc home/.nv/ComputeCache/index
expect_code 0 "$CLTRAIN" cache --clear --all --json
expect_text '"removed_bytes": 7'
expect_absent home/.cache/pocl/kcache/AB
expect_file home/.nv/ComputeCache/index
expect_code 0 "$CLTRAIN" cache --clear
expect_text 'nothing to remove'
expect_code 2 "$CLTRAIN" cache --clear nvidia
expect_text "home/.nv/ComputeCache' by hand"
expect_file home/.nv/ComputeCache/index
expect_code 2 "$CLTRAIN" cache --clear tunings
expect_text "no cache 'tunings'; there are programs, answers, tuning"
expect_code 2 "$CLTRAIN" cache tuning
expect_code 2 "$CLTRAIN" cache --all
# --- cltrain data fetch without a network: the proxy does not exist ---
export http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9
unset all_proxy ALL_PROXY no_proxy NO_PROXY
expect_code 0 "$CLTRAIN" data fetch
expect_text '^  mnist +11' '^  fashion-mnist ' '^  cifar10 ' '^  tinyshakespeare ' '^  gpt2 ' 'SHA-256'
expect_code 3 "$CLTRAIN" data fetch mnist
if command -v curl >/dev/null || command -v wget >/dev/null; then
    expect_text "'mnist' could not be loaded" '^  https://storage.googleapis.com/.*train-images-idx3-ubyte.gz: ' '^  https://ossci'
else
    expect_text 'neither curl nor wget'
fi
expect_text 'By hand' '1\. with a browser' '/t10k-labels-idx1-ubyte.gz$' '2\. cltrain data fetch mnist --from FOLDER$'
expect_absent data/mnist
expect_code 3 env PATH=/nonexistent "$CLTRAIN" data fetch mnist # which two mirrors have
expect_text 'neither curl nor wget is installed' 'apt-get install curl'
[ "$(grep -c 'neither curl nor wget' "$out")" -eq 1 ] && pass || fail 'the same reason is told for each mirror'
expect_code 2 "$CLTRAIN" data fetch mnits
expect_text "did you mean 'mnist'"
expect_code 2 "$CLTRAIN" data fetch mnist --from "$work/nowhere"
expect_text "there is no '$work/nowhere'"
mkdir copy
printf 'To be, or not to be' >copy/input.txt
expect_code 3 "$CLTRAIN" data fetch tinyshakespeare --from copy
expect_text "'copy/input.txt' is not the published input.txt" 'expected is 86c4e6aa9db7c042'
expect_absent data/tinyshakespeare
# With copies of the real files, if CLTRAIN_DATA names their folder.
sets=${CLTRAIN_DATA:-$CLTRAIN_SOURCE_DIR/../shared/data}
if [ -f "$sets/mnist/train-images-idx3-ubyte.gz" ] && [ -f "$sets/tinyshakespeare/input.txt" ] && [ -f "$sets/gpt2/vocab.bpe" ]; then
    mkdir real
    cd real || exit 1
    expect_code 0 "$CLTRAIN" data fetch mnist --from "$sets"
    expect_text '^data/mnist: 4 files' '^train on it: cltrain train configs/mlp-mnist.json$'
    expect_code 0 "$CLTRAIN" data fetch mnist
    expect_text 'all files exist already and are correct'
    printf x | dd of=data/mnist/t10k-labels-idx1-ubyte.gz bs=1 seek=40 conv=notrunc 2>/dev/null
    expect_code 3 "$CLTRAIN" data fetch mnist
    expect_text 'is there and is not the published file'
    expect_code 0 "$CLTRAIN" data fetch tinyshakespeare-gpt2 --from "$sets"
    expect_file data/tinyshakespeare/input.txt data/gpt2/vocab.json data/tinyshakespeare-gpt2/train_000.bin
    expect_code 0 "$CLTRAIN" data verify data/tinyshakespeare-gpt2
    cd ..
else
    note_skip "there are no copies of data sets in $sets (CLTRAIN_DATA): none was taken"
fi

# --- shipped configs: without their data they say how to get it; with it, or with a replacement of the same format, they run ---
# (with the caches of all tests, for speed)
for variable in "${kept[@]}"; do
    if [ -n "${variable#*=}" ]; then export "${variable?}"; fi
done
mkdir shipped
cd shipped || exit 1
for config in "$CLTRAIN_SOURCE_DIR"/configs/*.json; do
    reject=$(grep -c -E '"(\.\.|/home|/work)' "$config")
    if [ "$reject" -eq 0 ]; then pass; else fail "$config names a place outside"; fi
    set=$(sed -n 's/.*"data\/\([a-z0-9-]*\).*/\1/p' "$config" | head -n 1)
    [ -n "$set" ] || continue
    expect_code 3 "$CLTRAIN" train "$config" --dry-run
    expect_text 'No such file' "cltrain data fetch $set\$"
    "$CLTRAIN" data fetch | grep -q "^  $set " || fail "$config: there is no set $set"
done
# Where the files of a folder must lie, and a set to try.
for config in unet3d-tiny unet3d-ct cnn3d-ct; do
    expect_code 3 "$CLTRAIN" train "$CLTRAIN_SOURCE_DIR/configs/$config.json" --dry-run
    expect_text 'FOLDER/images/NAME.nii.gz and FOLDER/masks/NAME.nii.gz, volumes of classes in FOLDER/CLASS/NAME.nii.gz' \
        'cltrain data fetch volumes-sample$'
done
expect_code 3 "$CLTRAIN" train "$CLTRAIN_SOURCE_DIR/configs/resnet50-imagenet.json" --dry-run
expect_text "opening the folder 'imagenet/train'" 'imagenet/train/n01440764/\*.JPEG' 'into imagenet/val'
# The set of volumes is made without a network, the same each time, and made again where it was damaged.
expect_code 0 "$CLTRAIN" data fetch volumes-sample
expect_text '152 files, .* made$' 'cltrain train configs/unet3d-tiny.json'
cp data/volumes-sample/SHA256SUMS sums
printf x >data/volumes-sample/classes/shell/ct007.nii.gz
expect_code 0 "$CLTRAIN" data fetch volumes-sample
expect_text '152 files, .* made$'
expect_same sums data/volumes-sample/SHA256SUMS
expect_code 0 "$CLTRAIN" data fetch volumes-sample
expect_text '152 files, .* all files exist already and are correct'
expect_code 2 "$CLTRAIN" data fetch volumes-sample --from "$work"
expect_text "'volumes-sample' is made here, not downloaded"
expect_code 0 "$CLTRAIN" data verify data/volumes-sample/segmentation data/volumes-sample/classes
expect_text '140 good, none bad'
shipped_data
for config in "$CLTRAIN_SOURCE_DIR"/configs/*.json; do
    name=$(basename "$config" .json)
    options_of "$config"
    case $name in
    *-imagenet) ;; # nothing stands in for its images
    bert-base-* | llama-135m | llama-3* | qwen*) expect_code 0 "$CLTRAIN" train "$config" --dry-run model.layers=1 "${needed[@]}" ;;
    gpt2-*) expect_code 0 "$CLTRAIN" train "$config" --dry-run data.micro_batch=1 ;; # too large for a test; planned for any device
    resnet*-cifar10 | *-ct) expect_code 0 "$CLTRAIN" train "$config" --dry-run ;;
    mlp-text)
        if [ -e /usr/share/common-licenses/GPL-3 ]; then
            expect_code 0 "$CLTRAIN" train "$config" --max-steps 2 --out "runs/$name"
        else
            note_skip "there is no /usr/share/common-licenses: $name was not run"
        fi
        ;;
    *)
        expect_code 0 "$CLTRAIN" train "$config" --max-steps 2 --out "runs/$name"
        expect_file "runs/$name/metrics.jsonl"
        ;;
    esac
done
cd ..

# --- the README: its first lines, figures that were measured, commands that the program knows ---
readme=$CLTRAIN_SOURCE_DIR/README.md
head -n 12 "$readme" >"$out"
expect_text 'OpenCL' 'State of GPUs' 'docs/devices.md'
head -n 60 "$readme" >"$out"
expect_text '^    git clone .*cltrain$' '^    scripts/demo.sh' '^    step 1/.* loss ' '!\[.*\]\(docs/report.png\)' 'docs/results.md'
for figure in $(sed -n '/^| | cltrain/,/^$/p' "$readme" | grep -o -E '[0-9]{4}|[0-9]\.[0-9]{2}'); do
    case $figure in
    1024 | 2.15) ;; # a length, a version
    *) expect_code 0 grep -q -F -w -e "$figure" "$CLTRAIN_SOURCE_DIR/docs/results.md" ;;
    esac
done
if [ "$(sed -n '/^| | cltrain/,/^$/p' "$readme" | grep -c '^|')" -eq 5 ]; then pass; else fail 'README.md: there are not three rows of figures'; fi
cd "$CLTRAIN_SOURCE_DIR" || exit 1
awk '/^    (cltrain|mpirun) / { sub(/^.*cltrain /, ""); sub(/  +#.*/, ""); print }' README.md docs/README.md docs/configs.md docs/runs.md docs/checkpoints.md >"$work/commands"
n_commands=0
while read -r command rest; do
    n_commands=$((n_commands + 1))
    part=
    case $command in data | bench | ckpt | completion) part=${rest%% *} ;; esac
    "$CLTRAIN" "$command" $part --help >"$work/help" 2>&1 || fail "the docs name a command that there is not: $command $part"
    for word in $rest; do
        case $word in
        --*) if grep -q -e "^  ${word%%=*}\b" "$work/help"; then pass; else fail "cltrain $command $part has no option $word"; fi ;;
        configs/*.json) if [ -f "$word" ]; then pass; else fail "there is no $word"; fi ;;
        [a-z]*.*=*) if grep -q -F -e "| \`${word%%=*}\` |" docs/config.md; then pass; else fail "there is no key ${word%%=*}"; fi ;;
        esac
    done
done <"$work/commands"
if [ $n_commands -ge 25 ]; then pass; else fail "only $n_commands commands were found in the docs"; fi
finish
