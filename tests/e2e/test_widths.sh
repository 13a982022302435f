#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 20 ctest-optimise: no
#
# A terminal of 80 columns: no command prints a longer line, and no word is cut in two; a file gets whole lines. Step lines and tables of
# runs: test_first_hour_terminal, test_first_hour_report.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
screen=$CLTRAIN_BUILD_DIR/tests/screen_of
[ -x "$screen" ] || skip_all 'screen_of was not built'
export NO_COLOR=1
# Paths are never broken, so the paths of the program and of its caches are short here.
ln -s "$CLTRAIN" cltrain
export CLTRAIN_PROGRAM=$CLTRAIN CLTRAIN=./cltrain
own_cache cache

awk 'BEGIN { srand(5); print "rooms,area,price"; for (i = 0; i < 80; i++) { a = rand(); b = rand(); printf "%.4f,%.4f,%.4f\n", a, b, 2 * a - b } }' >houses.csv
for i in {1..40}; do echo "line $i of a text about nothing in particular, which goes on for a while"; done >story.txt
expect_code 0 "$CLTRAIN" new houses.csv

# at_80 CODE ARGUMENT...: what the terminal receives has no line of more than 80 columns. Without a terminal
# the output has the same words, so none is cut (their order may differ, since a cell of a table has several
# lines). NUMBERS=no: times and similar values differ between two runs, so words are not compared.
at_80() {
    local want=$1
    shift
    rm -rf shards w.safetensors new.json
    expect_code "$want" "$screen" -c 80 -o raw "$CLTRAIN" "$@"
    # progress is drawn in place: what follows the last carriage return of a line stays
    sed -e 's/\r$//' -e 's/.*\r//' -e 's/\x1b\[[0-9;?]*[A-Za-z]//g' raw >lines
    expect_awk "$*: a line is wider than 80 columns: $(awk 'length($0) > 80 { print; exit }' lines)" 'length($0) > 80 { exit 1 }' lines
    [ "${NUMBERS:-yes}" = yes ] || return 0
    rm -rf shards w.safetensors new.json
    guarded "$CLTRAIN" "$@" >whole 2>&1 </dev/null
    tr -s ' \n' '\n\n' <lines | grep -v '^$' | sort >words.80
    tr -s ' \n' '\n\n' <whole | grep -v '^$' | sort >words.whole
    if cmp -s words.80 words.whole; then pass; else fail "$*: other words at 80 columns: $(diff words.80 words.whole | head -n 5)"; fi
}
for command in train launch eval predict generate export data 'data prepare' 'data verify' bench 'bench gemm' 'bench allreduce' verify new config; do
    # shellcheck disable=SC2086
    at_80 0 $command --help
done
at_80 0 help
at_80 0 ops
at_80 0 ops conv2d
at_80 0 data fetch
at_80 0 new houses.csv --out new.json
at_80 3 new no/such/file/in/this/folder/of/mine/or/anywhere/else/houses.csv --out new.json
at_80 2 train no/such/file/in/this/folder/of/mine/or/anywhere/else/houses.json
at_80 2 train houses.json model.hiden=3 optimizer.type=adamW data.batch=32 # several problems
at_80 2 train houses.json --output runs/a
at_80 0 data verify houses.json
NUMBERS=no at_80 0 data prepare story.txt --out shards
at_80 2 compare a/run/that/does/not/exist/anywhere/at/all another/run/that/does/not/exist
# a file gets whole lines
expect_code 2 "$CLTRAIN" train houses.json --output runs/a
[ "$(wc -l <"$out")" -eq 1 ] && pass || fail 'an error is wrapped in a file'

"$CLTRAIN" devices >/dev/null 2>&1
if [ $? -eq 4 ]; then
    note_skip 'no OpenCL device: doctor, devices, tune, compare'
    finish
fi
NUMBERS=no at_80 0 devices
at_80 0 doctor
NUMBERS=no at_80 0 tune houses.json --seconds 1
NUMBERS=no at_80 0 train houses.json --max-steps 20 checkpoint.every=10 --out a-run-with-a-long-name
truncate -s 100 a-run-with-a-long-name/checkpoints/step_20/config.json # a long warning
NUMBERS=no at_80 0 train --resume a-run-with-a-long-name --max-steps 15
grep -q 'is skipped' lines && pass || fail 'there is no warning of the damaged checkpoint'
NUMBERS=no at_80 0 train houses.json --max-steps 20 --out another-run-with-a-long-name optimizer.learning_rate=0.01
NUMBERS=no at_80 0 compare a-run-with-a-long-name another-run-with-a-long-name
NUMBERS=no at_80 0 plan houses.json
at_80 0 plan --full houses.json
NUMBERS=no at_80 0 estimate houses.json
at_80 0 estimate --full houses.json
NUMBERS=no at_80 0 bench step houses.json
NUMBERS=no at_80 0 bench build houses.json
NUMBERS=no at_80 0 verify --small -t 'relu*'
NUMBERS=no at_80 0 verify -v --mode correct -t 'gemm.moments_forms_aligned*tf32_sm80_256x128x16*k2*' # 72 characters
at_80 0 export a-run-with-a-long-name --out w.safetensors
finish
