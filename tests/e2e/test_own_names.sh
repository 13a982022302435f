#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# The names that a run writes in its folder: a pipe, a device or a link under one of them is refused at once, with code 8, and nothing
# is written through it. A program that is started without its standard descriptors writes what it prints into no file.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export CLTRAIN_GEMM=simple # starts fastest
net mlp 'model.hidden=[8]' model.outputs=3 data.samples=52 'data.shape=[6]' data.classes=3 data.micro_batch=4 data.global_batch=8 train.steps=4 \
    train.eval_metrics=true >net.json
printf 'notes\n' >notes
for name in metrics.jsonl log.txt config.resolved.json classes.json profile.txt trace.json lock; do
    mkdir pipe link hanging
    mkfifo "pipe/$name"
    ln -s ../notes "link/$name"
    ln -s ../nowhere "hanging/$name"
    for run in pipe link hanging; do
        expect_code 8 "$CLTRAIN" train net.json --out $run
        expect_text "/$name': it is not a regular file but a link, a pipe or a device"
        expect_absent $run/checkpoints nowhere
        [ "$(find $run -mindepth 1 | wc -l)" = 1 ] && pass || fail "$run: files were made beside $name"
    done
    rm -rf pipe link hanging
done

# --- the page that report makes in the run folder, where the user names no other ---
expect_code 0 "$CLTRAIN" train net.json --out shown
mkfifo shown/report.html
expect_code 8 "$CLTRAIN" report shown
expect_text "shown/report.html': it is not a regular file but a link, a pipe or a device"
rm shown/report.html && ln -s ../notes shown/report.html
expect_code 8 "$CLTRAIN" report shown
expect_code 0 "$CLTRAIN" report shown --out page.html
[ "$(cat notes)" = notes ] && pass || fail 'a file was written through a link'

# --- without standard descriptors ---
for closed in '>&-' '<&- >&-' '<&- >&- 2>&-' '2>&-'; do
    rm -rf closed
    expect_code 0 bash -c "'$CLTRAIN' train net.json --out closed $closed"
    [ "$(grep -vc '^{' closed/metrics.jsonl)" = 0 ] && pass || fail "with $closed the console's text is in metrics.jsonl"
done

# --- texts by others: text that a terminal would interpret is printed to neither stream ---
printf '{"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]},"added_tokens":[{"id":0,"content":"\\u001b[31m"}]}' >escape.json
mkdir "$(printf 'esc\033]0;x\007')"
expect_code 3 "$CLTRAIN" data verify escape.json esc*
expect_text 'BAD '
if LC_ALL=C grep -q "[$(printf '\001-\010\013-\037\177')]" "$out"; then fail 'a control character reaches the terminal'; else pass; fi
finish
