#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# Limits of the shell, a run that is still active, and targets that are not classes: the first line of the
# message names the cause.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
export CLTRAIN_GEMM=simple # starts fastest
net mlp 'model.hidden=[40]' model.outputs=3 data.samples=52 'data.shape=[6]' data.classes=3 data.micro_batch=4 data.global_batch=8 train.steps=4 \
    >net.json
# limited OPTION VALUE CODE: a training under a limit of the shell.
limited() {
    local code=0
    (ulimit "$1" "$2" && exec "$CLTRAIN" train net.json --out limited) >"$out" 2>&1 </dev/null || code=$?
    if [ $code = "$3" ]; then pass; else fail "ulimit $1 $2: code $code, expected $3"; fi
    rm -rf limited
}
if nm "$CLTRAIN" 2>/dev/null | grep -q __asan_init; then
    note_skip 'sanitizers need more address space than a limit leaves'
else
    limited -v 200000 4
    expect_text 'memory is limited to 195 MiB by ulimit -v'
    (ulimit -v 200000 && exec "$CLTRAIN" doctor) >"$out" 2>&1 </dev/null
    expect_text '^ERROR +memory is limited to 195 MiB by ulimit -v'
fi
limited -f 8 8
expect_text 'files may not grow beyond [0-9]+ bytes \(ulimit -f\)'
expect_code 0 "$CLTRAIN" train net.json --out free # no answer of the driver under a limit was kept
reject_text 'continues without'

# --- a file size limit makes a command fail with a message, and leaves no partial file ---
# small COMMAND...: runs the command with a limit of 1024 bytes for its files, including its standard output,
# which is a file, too.
small() {
    local code=0
    (ulimit -f 1 && exec "$CLTRAIN" "$@") >shown 2>"$out" </dev/null || code=$?
    if [ $code = 8 ]; then pass; else fail "ulimit -f 1, $*: code $code, expected 8"; fi
    expect_text '^cltrain: storage error: '
}
small export free --out weights.safetensors
small report free --out page.html
small config --schema
small ckpt show free --optimizer --json
small man
if ls -A | grep -q -e '\.tmp-' -e weights -e 'page'; then fail "a limit left files: $(ls -A)"; else pass; fi

# --- resuming a run that is still going on, before its first checkpoint ---
# Not under `timeout`, which would end before the trainer, while the lock is still held.
"$CLTRAIN" train net.json train.steps=4000000 checkpoint.minutes=0 --out going >running 2>&1 </dev/null &
process=$!
await_from $process has_updates going
expect_code 8 "$CLTRAIN" train --resume going
expect_text "the run in 'going' is still training: locking 'going/lock': it is held by process [0-9]+ on host"
kill -9 $process
wait $process 2>/dev/null
expect_code 7 "$CLTRAIN" train --resume going
expect_text 'ended before its first checkpoint'

# --- integers that are unlikely to be classes ---
printf 'a,b\n1,5\n2,2147483647\n3,7\n' >large.csv
echo '{"model": {"type": "mlp", "hidden": [8]}, "data": {"type": "csv", "path": "large.csv", "split": 0, "micro_batch": 2}, "train": {"steps": 2}}' >large.json
expect_code 2 "$CLTRAIN" train large.json --dry-run
expect_text 'the largest target is 2147483647: is this a class, or a value to predict'
expect_code 2 "$CLTRAIN" train large.json model.outputs=0 model.hidden=[3000000000] --dry-run
reject_text 'e[+]09'
finish
