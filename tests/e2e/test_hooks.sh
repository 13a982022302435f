#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 6 ctest-optimise: no
#
# Hooks (hooks.*): what they are told and what they are not; no shell reads their arguments; the training
# neither waits for them nor fails with them; a hook that does not end is killed, and the newest checkpoint
# waits for a slow hook.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

net mlp train.steps=4000000 checkpoint.minutes=0 cloud.poll_seconds=0.05 >net.json
# tell FILE ARGUMENT...: appends the arguments and the whole environment to FILE, a line for each
cat >tell <<'END'
#!/bin/sh
to=$1
shift
{ for word in "$@"; do echo "argument $word"; done; env | sort; echo; } >>"$to"
echo "told of $CLTRAIN_STEP"
END
cat >hold <<'END'
#!/bin/sh
until [ -e go ]; do sleep 0.05; done
END
chmod +x tell hold
export SECRET=hidden PASSED='of the user'
has_event() { grep -q "\"event\":\"$2\".*$3" "$1/metrics.jsonl"; } # RUN EVENT PATTERN
has() { cp "$1" "$out"; expect_text "${@:2}"; } # FILE PATTERN...

expect_code 0 "$CLTRAIN" train net.json --out run --max-steps 12 checkpoint.every=6 \
    'hooks.on_save=["./tell","saved","$(touch broken) ; *"]' 'hooks.on_exit=["./tell","ended"]' 'hooks.pass=["PASSED"]'
expect_absent broken
has saved '^argument \$\(touch broken\) ; \*$' '^CLTRAIN_HOOK=on_save$' '^CLTRAIN_STEP=12$' '^CLTRAIN_REASON=' "^CLTRAIN_RUN=$work/run$" \
    "^CLTRAIN_CHECKPOINT=$work/run/checkpoints/step_12$" '^PASSED=of the user$' '^HOME=' '^PATH='
reject_text SECRET '^CLTRAIN_CACHE_DIR'
has ended '^CLTRAIN_HOOK=on_exit$' '^CLTRAIN_EXIT_CODE=0$' '^CLTRAIN_MESSAGE=$' '^CLTRAIN_STEP=12$' "^CLTRAIN_CHECKPOINT=$work/run/checkpoints/step_12$"
reject_text SECRET
has run/hooks.log '^--- hooks.on_save, step 12$' '^told of 12$' '^--- hooks.on_exit, step 12$'
has run/log.txt 'hooks.on_save after step 12: exit code 0'
if [ "$(tail -n 1 run/metrics.jsonl | grep -c '"event":"end"')" -eq 1 ]; then pass; else fail 'the last line is not the end'; fi
# A run that is resumed by its folder alone may be a stranger's: its hooks are named and not run.
rm saved ended
expect_code 0 "$CLTRAIN" train --resume run --max-steps 14 'hooks.on_exit=["./tell","again"]'
expect_text 'hooks.on_save of the saved config is not run' '--out RUN --resume auto'
expect_absent saved ended
has again '^CLTRAIN_STEP=14$'

# A notice, and the end that it causes. A command that fails before its first step runs its last hook, too.
"$CLTRAIN" train net.json --out noticed cloud.notice_file=gone checkpoint.every=20 'hooks.on_save=["./tell","kept"]' \
    'hooks.on_notice=["./tell","notice"]' 'hooks.on_exit=["./tell","left"]' >noticed.out 2>&1 &
process=$!
await_from $process has_event noticed hook '"hook":"on_save","result":"exit code 0","seconds":'
touch gone
code=0
await_end $process
wait $process || code=$?
cp noticed.out "$out"
if [ $code -eq 75 ]; then pass; else fail "code $code instead of 75"; fi
has notice '^CLTRAIN_PROVIDER=file$' '^CLTRAIN_NOTICE=the file gone exists$' '^CLTRAIN_NOTICE_KIND=stop$'
has left '^CLTRAIN_EXIT_CODE=75$' '^CLTRAIN_MESSAGE=stopped after step '
has noticed/log.txt 'hooks.on_notice after step [0-9]*: exit code 0'
if [ "$(tail -n 1 noticed/metrics.jsonl | grep -c '"event":"stopped"')" -eq 1 ]; then pass; else fail 'the last line is not the end'; fi
net mse data.path=absent.csv train.steps=4 >absent.json
expect_code 3 "$CLTRAIN" train absent.json --out none 'hooks.on_exit=["./tell","failed"]'
has failed '^CLTRAIN_EXIT_CODE=3$' '^CLTRAIN_MESSAGE=.*absent.csv' '^CLTRAIN_STEP=0$'
reject_text CLTRAIN_RUN
expect_absent none

# A notice before the first step: the hook runs, and the folder is removed.
expect_code 75 "$CLTRAIN" train net.json --out early cloud.notice_file=gone cloud.poll_seconds=0.01 'hooks.on_notice=["./tell","warned"]'
if [ -e early/checkpoints ]; then rm -rf early; fi # the notice was seen after the first step
has warned '^CLTRAIN_NOTICE_KIND=stop$'
expect_absent early

# Hooks that fail, crash, do not end, or are missing: the user is told, and the training has the same result
# as without them.
expect_code 0 "$CLTRAIN" train net.json --out bad --max-steps 4 'hooks.on_save=["sh","-c","echo why; exit 3"]' 'hooks.on_exit=["sh","-c","kill -SEGV $$"]'
expect_text 'hooks.on_save after step 4: exit code 3: why' 'hooks.on_exit after step 4: SIGSEGV'
has bad/log.txt 'hooks.on_save after step 4: exit code 3: why'
expect_code 0 "$CLTRAIN" train net.json --out late --max-steps 4 'hooks.on_save=["sleep","1000"]' hooks.seconds=0.3
expect_text 'hooks.on_save after step 4: killed, since it ran for more than 0.3 s'
cp tell gone_soon
expect_code 0 "$CLTRAIN" train net.json --out vanished --max-steps 4 'hooks.on_save=["rm","gone_soon"]' 'hooks.on_exit=["./gone_soon","x"]'
expect_text "hooks.on_exit: starting '.*gone_soon' as a child process"
expect_same bad/checkpoints/step_4/model.safetensors late/checkpoints/step_4/model.safetensors

# While a hook runs, events wait; of several events only the newest is kept.
"$CLTRAIN" train net.json --out held --max-steps 40 checkpoint.every=4 'hooks.on_save=["./hold"]' hooks.seconds=80000 >held.out 2>&1 &
process=$!
await_from $process has_event held saved '"path":".*step_40"'
touch go
code=0
await_end $process
wait $process || code=$?
if [ $code -eq 0 ]; then pass; else fail "held: code $code"; fi
has held/hooks.log .
expect_same "$out" <(printf -- '--- hooks.on_save, step 4\n--- hooks.on_save, step 40\n')

# Faults that are refused before anything is made; a dry run refuses them, too, and runs no hook.
for dry in '' --dry-run; do
    expect_code 2 "$CLTRAIN" train net.json --out no 'hooks.on_save=["./absent"]' $dry
    expect_text "hooks.on_save: './absent' is not a program that may be run"
done
expect_code 2 "$CLTRAIN" train net.json --out no 'hooks.on_exit=["no_such_program"]'
expect_text "hooks.on_exit: no folder of PATH has a program 'no_such_program'"
expect_code 2 "$CLTRAIN" train net.json --out no 'hooks.on_notice=[""]' 'hooks.pass=["A=1"]'
expect_text 'hooks.on_notice: an empty string names nothing' 'hooks.pass: must be at most 100 names'
expect_code 0 "$CLTRAIN" train net.json --out no --dry-run 'hooks.on_exit=["./tell","dry"]'
expect_absent no dry
finish
