#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 40 ctest-optimise: no
#
# The words of other tools: every row of the tables in cli/screen/other_words.c is typed, and the message's
# advice is followed. tests/unit/models/test_config_other_tools.c tests values of config keys.
. "$(dirname "$0")/lib.sh"
own_cache "$work/cache" # one of the lines to follow clears it

table=$CLTRAIN_SOURCE_DIR/cli/screen/other_words.c
cat >net.json <<'JSON'
{
  "model": {"type": "mlp", "hidden": [8], "outputs": 1, "loss": "mse"},
  "data": {"type": "synthetic", "samples": 64, "shape": [4], "target_shape": [1], "classes": 0, "micro_batch": 8},
  "train": {"epochs": 1}
}
JSON
printf '0.1,0.2,0.3,0.4\n' >rows.csv
printf 'a text of a few words\n%.0s' {1..50} >text.txt
device=yes
"$CLTRAIN" devices >/dev/null 2>&1 || device=no
if [ $device = yes ]; then
    expect_code 0 "$CLTRAIN" train net.json --out run
    cp -r run run2
    sed -e 's/"model": {.*/"model": {"type": "gpt", "layers": 1, "heads": 1, "channels": 8, "context": 16},/' \
        -e 's/"data": {.*/"data": {"type": "text", "path": "text.txt", "micro_batch": 4},/' net.json >gpt.json
    expect_code 0 "$CLTRAIN" train gpt.json --max-steps 2 --out gpt
else
    note_skip 'no OpenCL device: what is advised is only parsed'
    mkdir run run2
fi

# advised: the line that the last message offers, with the program's path in place of its name.
advised() { sed -n -e 's/.*; write: cltrain /cltrain /p' -e 's/.*is the first argument: cltrain /cltrain /p' "$out"; }
# do_advised WHAT: follows the advice; this may fail for lack of a device, but is never refused as a wrong
# command line.
do_advised() {
    local line code
    line=$(advised)
    [ -n "$line" ] || { fail "no advice for: $1"; return; }
    guarded bash -c "cltrain() { \"$CLTRAIN\" \"\$@\"; }; $line" >"$out" 2>&1 </dev/null
    code=$?
    case $code in
    0) pass ;;
    2 | 70 | 12? | 13?) fail "code $code: $1: $line" ;;
    *) [ $device = no ] || [ "${2:-}" = may_fail ] && pass || fail "code $code: $1: $line" ;;
    esac
}

# The words typed after each command of the table, chosen by how its advice begins.
operands_of() {
    case $1 in
    'train --resume') echo 'run train.epochs=2' ;;
    'train --init FOLDER') echo 'net.json --dry-run' ;;
    'train --profile') echo 'net.json --dry-run' ;; # measuring the device's limits takes half a minute with kernels that are not optimised
    train | 'train --dry-run') echo "net.json --out run-$RANDOM$RANDOM" ;;
    eval | export | watch | report) echo 'run' ;;
    predict) echo 'run --input rows.csv' ;;
    compare) echo 'run run2' ;;
    'data fetch') echo 'shakespear' ;;
    'data prepare') echo "text.txt --out shards-$RANDOM$RANDOM" ;;
    generate) echo 'gpt --max-new 4' ;;
    'bench step' | 'bench build' | plan | estimate) echo 'net.json' ;;
    launch) echo 'net.json --devices 1' ;;
    tune) echo '--list' ;;
    devices | doctor | 'config --schema' | ops | 'cache --clear') echo '' ;;
    new) echo "text.txt --out new-$RANDOM$RANDOM.json" ;;
    *) fail "this test knows no operands for '$1'" ;;
    esac
}

rows=0
while IFS='"' read -r _ words _ write _; do
    for word in ${words//|/ }; do
        rows=$((rows + 1))
        operands=$(operands_of "$write")
        # shellcheck disable=SC2086
        expect_code 2 "$CLTRAIN" "$word" $operands
        expect_text "unknown command '$word'; write: cltrain $write"
        case $write in
        'train --init FOLDER') sed -i 's|FOLDER|run|' "$out" && do_advised "$word" ;;
        # the name is nearly right, and nothing is to be downloaded: the next message names the set
        'data fetch') expect_code 2 "$CLTRAIN" data fetch $operands && expect_text "did you mean 'tinyshakespeare'" ;;
        watch) sed -i 's|$| --once|' "$out" && do_advised "$word" ;;
        export) sed -i 's|$| --format safetensors --out w-'$rows'.safetensors|' "$out" && do_advised "$word" ;;
        launch) do_advised "$word" may_fail ;; # a build without MPI
        *) do_advised "$word" ;;
        esac
    done
done < <(grep '^    COMMAND(' "$table")
expect_awk 'rows of the table of commands' "BEGIN { exit !($rows >= 50) }"

# --- options ---
# type_option COMMAND WORD VALUE WRITE: types the option where its row applies, and what the message says is typed in its place.
type_option() {
    local command=$1 word=$2 value=$3 write=$4
    local run=(); read -r -a run <<<"$command"
    expect_code 2 "$CLTRAIN" "${run[@]}" "$word" $value
    case $write in
    CONFIG | RUN)
        expect_text "unknown option '$word'; $write is the first argument: cltrain ${run[0]} $value"
        ;;
    [a-z]*=*) expect_text "unknown option '$word'; write: $write" && expect_code 0 "$CLTRAIN" config --print net.json "$write" ;;
    [a-z]*) expect_text "unknown option '$word'; write: cltrain $write ${value:+$value }CONFIG" ;;
    *)
        expect_text "unknown option '$word'; write: $write${value:+ $value}"
        local written=() # the option that is advised exists: its value may still be wrong
        read -r -a written <<<"$write"
        guarded "$CLTRAIN" "${run[@]}" "${written[@]}" $value >"$out" 2>&1 </dev/null
        reject_text 'unknown option' 'unexpected argument' 'needs a value'
        ;;
    esac
}

options=0
# a row of the table may continue on the next line
while IFS= read -r row; do
    IFS='"' read -r _ words _ write _ <<<"$(sed 's/NULL, *"/"/; s/", *"[a-z ]*", *"/", "/' <<<"$row")"
    command=$(sed -n 's/.*|*[a-z-]*", *"\([a-z ]*\)", *".*/\1/p' <<<"$row")
    value=
    grep -q 'true)' <<<"$row" && value=2
    for word in ${words//|/ }; do
        options=$((options + 1))
        case "$command:$write" in
        train:*) type_option 'train net.json --dry-run' "$word" "$value" "$write" ;;
        launch:*) type_option 'launch none.json' "$word" "$value" "$write" ;;
        generate:*) type_option 'generate run' "$word" "$value" "$write" ;;
        'data prepare:'*) type_option 'data prepare none.txt' "$word" "$value" "$write" ;;
        :--out) type_option 'data prepare none.txt' "$word" "$value" "$write" ;;
        config:*) type_option config "$word" "$value" "$write" ;;
        :CONFIG) type_option plan "$word" net.json "$write" ;;
        :RUN) type_option generate "$word" run "$write" ;;
        :--device*) type_option 'plan none.json' "$word" "$value" "$write" ;;
        :--dry-run) type_option 'train none.json' "$word" "$value" "$write" ;;
        :--max-new | :--prompt) type_option 'generate none' "$word" "$value" "$write" ;;
        :--input | :--top-k) type_option 'predict none' "$word" "$value" "$write" ;;
        :--jobs) type_option 'verify --mode list' "$word" "$value" "$write" ;;
        *) fail "this test does not type the row: $row" ;;
        esac
    done
done < <(awk '/^    OPTION\(/ { row = $0; while (row !~ /\),?$/ && (getline more) > 0) { sub(/^ */, "", more); row = row " " more } print row }' "$table")
expect_awk 'rows of the table of options' "BEGIN { exit !($options >= 60) }"

# --- advice when nothing follows the word, in any case of letters; and words that no other tool has ---
expect_code 2 "$CLTRAIN" resume
expect_text 'write: cltrain train --resume RUN'
expect_code 2 "$CLTRAIN" Fine_Tune 'my net.json'
expect_text "write: cltrain train --init FOLDER 'my net.json'"
expect_code 2 "$CLTRAIN" verify-work
reject_text 'verify-worker' # a command of ours that is not for users
expect_code 2 "$CLTRAIN" train net.json --devices=2
expect_text 'write: cltrain launch --devices 2 CONFIG'
expect_code 2 "$CLTRAIN" launch --nproc_per_node 2 net.json
expect_text "unknown option '--nproc_per_node'; write: --devices 2"
expect_code 2 "$CLTRAIN" launch net.json --nnodes 2
expect_text "unknown option '--nnodes'; write: --hosts FILE"
expect_code 2 "$CLTRAIN" train net.json --OUTPUT_DIR x
expect_text 'write: --out x'
expect_code 2 "$CLTRAIN" train net.json --lr 0.1
expect_text 'write: optimizer.learning_rate=0.1'
expect_code 2 "$CLTRAIN" train net.json --epochs 3
expect_text 'write: train.epochs=3'
expect_code 2 "$CLTRAIN" train net.json --batch-size 32
expect_text 'write: data.micro_batch=32'
expect_code 2 "$CLTRAIN" train net.json --seed 7
expect_text 'write: train.seed=7'
for override in optimizer.learning_rate=0.1 train.epochs=3 data.micro_batch=32 train.seed=7; do
    expect_code 0 "$CLTRAIN" config --print net.json $override
done
expect_code 2 "$CLTRAIN" data fetch shakespeare
expect_text "did you mean 'tinyshakespeare'"
expect_code 2 "$CLTRAIN" data fetch FashionMNIST
expect_text "did you mean 'fashion-mnist'"
printf 'model:\n  type: gpt\n' >net.yaml
expect_code 2 "$CLTRAIN" train net.yaml
expect_text 'net.yaml: it is not JSON; it looks like YAML, which is not read'
finish
