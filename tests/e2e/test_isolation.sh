#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 80 ctest-optimise: no
#
# A driver that crashes, hangs, computes garbage or refuses (simulated by fault/driver_shim.c) costs the capability that was tested,
# with its name and the reason, and nothing else: `devices`, its JSON, `doctor` and training go on with the rest. Results are
# cached; capabilities that a mask removes are not tested; a device that cannot run a trivial kernel is refused with the reason.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

shim=$CLTRAIN_BUILD_DIR/tests/driver_shim.so
[ -e "$shim" ] || skip_all "there is no $shim"
export CLTRAIN_CACHE_DIR=$work/cache
"$CLTRAIN" devices --json >good.json 2>/dev/null || skip_all 'there is no device'
grep -q '"fp64"' good.json || skip_all 'the device has no fp64 to lose'
unset CLTRAIN_EMULATE
# A driver that hangs is given up after this time: a hundred times what a healthy driver needs with its
# kernels cached. Such commands wait in the background while the rest is tested. Apart from them no answer
# counts as too slow.
seconds=$((40 * ${CLTRAIN_TEST_PATIENCE:-1}))
export CLTRAIN_PROBE_SECONDS=1000000
count=0

# bad CODE RULE COMMAND...: ends with CODE with a driver that behaves so and has not been tested before.
bad() {
    export CLTRAIN_CACHE_DIR=$work/cache.$((count += 1))
    expect_code "$1" env LD_PRELOAD="$shim" CLT_SHIM="$2;log=$work/calls" "${@:3}"
}
# begin NAME COMMAND...: starts it in the background. ended CODE NAME: it ends with CODE; its output is the
# last output.
begin() {
    local name=$1
    shift
    { guarded "$@" >"$name.out" 2>&1 </dev/null; echo $? >"$name.code"; } &
}
ended() {
    await test -s "$2.code"
    cp "$2.out" "$out"
    if [ "$(cat "$2.code")" = "$1" ]; then pass; else fail "code $(cat "$2.code"), expected $1: $2"; fi
}
# hangs NAME RULE COMMAND...: starts, in the background, a command with a driver that has not been tested
# before and hangs.
hangs() { begin "$1" env CLTRAIN_CACHE_DIR="$work/cache.$1" CLTRAIN_PROBE_SECONDS=$seconds LD_PRELOAD="$shim" CLT_SHIM="$2" "${@:3}"; }
# Compares two lists of devices, except for the memory that is free.
expect_same_devices() { expect_same <(grep -v '"[a-z]*_bytes"' "$1") <(grep -v '"[a-z]*_bytes"' "$2"); }
# lost CAPABILITY STATE REASON: the last `devices` reported it twice, as a warning and in the table.
lost() {
    expect_text "^warning: device .* goes without '$1' \($2\): .*$3" "^ +goes without $1 \($2\): .*$3" "^[0-9]+:[0-9]+ "
}

bad 0 'build:option=PROBE_FP64:abort' "$CLTRAIN" devices
lost fp64 crashed SIGABRT
hangs devices 'launch:kernel=probe_fp64:hang' "$CLTRAIN" devices
hangs doctor 'launch:kernel=probe_basic:hang' "$CLTRAIN" doctor
expect_code 0 env CLTRAIN_CACHE_DIR="$work/cache.1" LD_PRELOAD="$shim" "$CLTRAIN" devices # the same key, a good driver
expect_text "goes without 'fp64' \(crashed\), as remembered; 'cltrain devices --again' asks again"
expect_code 0 env CLTRAIN_CACHE_DIR="$work/cache.1" LD_PRELOAD="$shim" "$CLTRAIN" devices --again
reject_text 'goes without'
bad 0 'launch:kernel=probe_local:segfault' "$CLTRAIN" devices
lost local crashed SIGSEGV
lost wg256 crashed SIGSEGV
if all_cases; then
    bad 0 'build:option=PROBE_FP64:error=-11' "$CLTRAIN" devices
    lost fp64 refused CL_BUILD_PROGRAM_FAILURE
    bad 0 'launch:kernel=probe_fp64:garbage=0.1' "$CLTRAIN" devices
    lost fp64 wrong 'computed wrong results'
fi
bad 0 'launch:kernel=probe_fp64:dead' "$CLTRAIN" devices # and with it the context, not the questions after it
lost fp64 failed 'probe_fp64'
reject_text 'int64_atomics \('

# A call that fails once is repeated; a call that always fails is reported and not cached.
if all_cases; then
    bad 0 'kernel:kernel=probe_fp64:error=-5:nth=1' "$CLTRAIN" devices
    reject_text 'goes without'
fi
bad 0 'kernel:kernel=probe_fp64:error=-5' "$CLTRAIN" devices
lost fp64 failed CL_OUT_OF_RESOURCES
expect_code 0 env CLTRAIN_CACHE_DIR="$CLTRAIN_CACHE_DIR" LD_PRELOAD="$shim" "$CLTRAIN" devices
reject_text 'goes without'

# Signals sent to a whole job do not end a child: its parent handles them. If another process ends a child,
# this says nothing about its driver, and the test is repeated at the next start.
export CLTRAIN_CACHE_DIR=$work/cache.killed
: >calls
LD_PRELOAD=$shim CLT_SHIM="build:option=PROBE_FP64:hang;log=$work/calls" "$CLTRAIN" devices >"$out" 2>&1 </dev/null &
parent=$!
await_from "$parent" test -s calls
child=$(awk '{ print $1; exit }' calls)
expect_blocked "$child" TSTP INT TERM HUP USR1 USR2
for name in TSTP INT TERM HUP USR1 USR2; do kill -s $name -- "-$child"; done
waiting=0 # each of them waits for the process for ever
for name in TSTP INT TERM HUP USR1 USR2; do waiting=$((waiting | 1 << ($(kill -l $name) - 1))); done
if [ $((0x$(sed -n 's/^ShdPnd:[[:space:]]*//p' "/proc/$child/status") & waiting)) -eq $waiting ]; then pass; else fail 'the child took a signal'; fi
expect_awk 'the child runs on' '{ exit $3 !~ /[SRD]/ }' "/proc/$child/stat"
kill -KILL "$child"
if wait "$parent"; then pass; else fail 'devices ends with an error when a child is killed'; fi
lost fp64 failed SIGKILL
expect_code 0 env LD_PRELOAD="$shim" "$CLTRAIN" devices
reject_text 'goes without'

# A file system without locks: processes that start at the same time test at the same time, and the last result to be written is
# complete.
export CLTRAIN_CACHE_DIR=$work/cache.locks
locks=$CLTRAIN_BUILD_DIR/tests/lock_shim.so
CLT_LOCK_SHIM_LOG=$work/flocks LD_PRELOAD=$locks "$CLTRAIN" devices --json >first.json 2>first.err </dev/null &
parent=$!
expect_code 0 env CLT_LOCK_SHIM_LOG="$work/flocks" LD_PRELOAD="$locks" "$CLTRAIN" devices --json
if wait "$parent"; then pass; else fail 'one of two starts without locks fails'; fi
reject_text warning
if [ -s first.err ]; then fail "the first of two starts without locks says: $(cat first.err)"; else pass; fi
expect_same_devices "$out" first.json
expect_file flocks
expect_code 0 env LD_PRELOAD="$locks" "$CLTRAIN" devices --json
expect_same_devices "$out" first.json

# As JSON: name, state and reason of each.
bad 0 'build:option=PROBE_FP64:abort' "$CLTRAIN" devices --json
tr -d ' \n' <"$out" >flat.json
expect_awk 'the JSON names the lost capability' \
    '/"capability":"fp64","state":"crashed","lost":true,"reason":"[^"]*SIGABRT/ { found = 1 } END { exit !found }' flat.json
bad 0 'build:option=PROBE_FP64:abort' "$CLTRAIN" doctor
expect_text "^warn .*goes without 'fp64' \(crashed\): .*SIGABRT" '^healthy'

# Nothing works: the device is refused by name, both as the only device and when it is requested.
bad 4 'launch:kernel=probe_basic:abort' "$CLTRAIN" devices
expect_text 'NOT USABLE: .*running a trivial kernel crashed: the driver ended its process with SIGABRT' 'none of [0-9]+ devices'
bad 4 'launch:kernel=probe_basic:garbage' "$CLTRAIN" verify -t known.philox --device 0:0
expect_text 'cannot be used: running a trivial kernel wrong'
ended 4 doctor
expect_text "^ERROR .*running a trivial kernel hung: no answer in $seconds s"

# The probe is right but a real kernel is wrong: its self-test costs the capability that the kernel uses,
# and the check of the same kernel agrees.
bad 0 'launch:kernel=gemm_fwd_lane:garbage=0.01' "$CLTRAIN" devices
lost wide_vectors wrong 'self-test wide_vectors: gemm.deep_columns\[lane\]/correct'
bad 4 'launch:kernel=gemm_fwd_dot:segfault' "$CLTRAIN" devices
expect_text 'NOT USABLE: .*test:floor crashed: the driver ended its process with SIGSEGV'
# The form for every device works without float16 vectors if the driver does not accept them.
bad 0 'build:family=gemm+option=-DVW=16:error' "$CLTRAIN" devices
lost wide_vectors refused 'self-test floor_lanes: gemm.odd_nt\[simple\]/correct'
if all_cases; then
    export CLTRAIN_EMULATE=mma_f16
    bad 0 'launch:family=gemm_mma:garbage=0.01' "$CLTRAIN" devices
    lost mma_f16 wrong 'self-test mma_f16: gemm.odd_nn\[mma_f16\]/correct'
    unset CLTRAIN_EMULATE
fi

# On two cores two children ask a share of the self-tests each, on one core one child asks all: the answers
# are the same.
if command -v taskset >/dev/null; then
    answers() { sed -n -E 's/^ *"(item|answer)": "([^"]*)",?$/\2/p' "$1"/answers/*.json | paste - - | sort; }
    expect_code 0 env CLTRAIN_CACHE_DIR="$work/cache.one" taskset -c "$(taskset -pc $$ | grep -oE '[0-9]+' | tail -n 1)" "$CLTRAIN" devices
    answers "$work/cache.one" >one.txt
    answers "$work/cache" >all.txt
    expect_same one.txt all.txt
    expect_awk 'self-tests of both shares are answered' '/^test:(floor|floor_lanes|local|wide_vectors)\tyes$/ { n++ } END { exit n < 2 }' all.txt
else
    note_skip 'taskset is not there, so self-tests on one core are not tried'
fi

# The checker skips exactly the forms for capabilities that the driver lost, with the reason.
bad 0 'launch:kernel=probe_lane:abort' "$CLTRAIN" verify --mode correct -t 'relu.tail*' -v
expect_text 'variant lane: the driver lost wide_vectors \(crashed\): .*SIGABRT' '^PASS +relu.tail\[flat\]/correct'
reject_text 'PASS +relu.tail\[lane\]'
if all_cases; then
    bad 0 'launch:kernel=probe_lane:abort' "$CLTRAIN" verify --mode correct -t 'known.*epilogue*' -v
    expect_text '^2 passed, 0 failed, 2 skipped' 'epilogues: the driver lost wide_vectors \(crashed\)'
fi

# A true limit of work-groups costs everything that needs larger ones; a limit that the driver only claims
# (Mesa's rusticl) costs nothing.
bad 0 'group:*:limit=32' "$CLTRAIN" devices
expect_text 'caps '
reject_text 'caps .*local' 'caps .*wg256'
bad 0 'group:*:understate=32' "$CLTRAIN" devices
expect_text 'caps local,wg256'
reject_text 'goes without' # the child that times vectors does not know of the limit
bad 0 'group:*:understate=32' "$CLTRAIN" verify --mode correct -t 'softmax.odd*' -v
expect_text '^PASS +softmax.odd\[group\]/correct'

# A driver reports a thousand times the size of a kernel's local arrays (Mesa's rusticl: twice). This is
# ignored if a kernel with all of the device's local memory runs, and believed if that kernel is refused.
# The result is remembered.
tile='gemm.tails_nn[tile_64x64x16_4x4_k1]'
bad 0 'local:*:times=1000' "$CLTRAIN" verify --mode correct --seed 7 -t "$tile" -v
expect_text '^1 passed, 0 failed, 0 skipped'
: >calls
expect_code 0 env LD_PRELOAD="$shim" CLT_SHIM="local:*:times=1000;log=$work/calls" "$CLTRAIN" verify --mode correct --seed 7 -t "$tile"
reject_text 'FAIL'
expect_awk 'the probe kernels are not asked again' '$4 ~ /^probe_/ { bad++ } $4 == "gemm_fwd_tile" { n++ } END { exit bad || !n }' calls
bad 1 'local:*:times=1000;build:option=PROBE_LOCAL_KIB:error' "$CLTRAIN" verify --mode correct --seed 7 -t "$tile"
expect_text 'it needs 16896000 bytes of local memory'

# A masked capability is not asked for.
: >calls
bad 0 'build:option=PROBE_FP64:abort' "$CLTRAIN" verify -t known.philox --caps -fp64
expect_awk "fp64 is not asked for" "END { exit NR > 0 }" calls
reject_text 'goes without'
bad 0 'build:option=PROBE_FP64:abort' "$CLTRAIN" verify -t known.philox --caps local,fp64
expect_text "goes without 'fp64'"
expect_awk "fp64 is asked for" "END { exit NR == 0 }" calls

# Damaged answers are not trusted, and replaced.
export CLTRAIN_CACHE_DIR=$work/cache
for file in "$CLTRAIN_CACHE_DIR"/answers/*.json; do
    sed -i 's/"yes"/"no"/' "$file"
done
expect_code 0 "$CLTRAIN" devices --json
expect_text 'warning: remembered capabilities .* cannot be used, so it is probed again: .*does not match its own hash'
expect_code 0 "$CLTRAIN" devices --json
expect_same_devices "$out" good.json

# Without the program there is no child: this is said once, and this process asks the device.
expect_code 0 env CLTRAIN_CACHE_DIR="$work/cache.none" CLTRAIN_PROGRAM=/nowhere/cltrain "$CLTRAIN" devices
expect_text 'is probed in this process instead of in a child process, .*CLTRAIN_PROGRAM=/nowhere/cltrain' 'caps .*fp64'

# The hidden command is not for users.
expect_code 0 "$CLTRAIN" help
reject_text '^ +probe '
expect_code 2 "$CLTRAIN" probe --device 0:0 3<&-
expect_text 'is for cltrain itself'

# verify: if the driver crashes, hangs or loses the device in a check, that check fails by name with the
# line that repeats it, and the others run.
export CLTRAIN_CACHE_DIR=$work/cache.verify
expect_code 0 env LD_PRELOAD="$shim" "$CLTRAIN" verify --small --mode correct --seed 7 -t softmax.odd # asked before
expect_text '^2 passed, 0 failed'
lost_check() {
    expect_text '^FAIL +softmax.odd\[group\]/correct' '^1 passed, 1 failed, 0 skipped' \
        "^ +repeat: cltrain verify -t 'softmax.odd\[group\]/correct' --seed 7 --device [0-9]+:[0-9]+$"
}
softmax=("$CLTRAIN" verify --small --mode correct --seed 7 -t softmax.odd --limit)
begin verify env LD_PRELOAD="$shim" CLT_SHIM=launch:kernel=softmax_fwd_group:hang "${softmax[@]}" $seconds
for what in segfault dead; do
    expect_code 1 env LD_PRELOAD="$shim" CLT_SHIM="launch:kernel=softmax_fwd_group:$what" "${softmax[@]}" 1000000
    lost_check
done
# Several workers: each check is run once, even if a worker ends in the middle of it, and reports are in the
# order of the list.
"$CLTRAIN" verify --small --mode list -t 'softmax.*' | grep '/correct$' >names
expect_code 1 env LD_PRELOAD="$shim" CLT_SHIM="launch:kernel=softmax_bwd_group:segfault" \
    "$CLTRAIN" verify --small --mode correct --seed 7 -t 'softmax.*' --jobs 3 -v --json jobs.json
grep -E '^(PASS|FAIL|SKIP) ' "$out" | awk '{ print $2 }' | sort >ran
sort names | diff - ran >"$out" && pass || fail 'not every check was run once'
sed -n -E 's/^ *"name": "(.*)",$/\1/p' jobs.json | diff names - >"$out" && pass || fail 'the report is not in the order of the list'
expect_awk 'other checks than those of the kernel failed, or none' \
    '/"name"/ { name = $2 } /"state": "FAIL"/ { n++; bad += name !~ /group/ } END { exit n < 3 || bad > 0 }' jobs.json
# If a second worker cannot open the device, only its help is missing.
cat >helper <<SH
#!/usr/bin/env bash
if [ "\$1" = verify-worker ] && ! mkdir "$work/first" 2>/dev/null; then exit 3; fi
exec "$CLTRAIN" "\$@"
SH
chmod +x helper
expect_code 0 env CLTRAIN_PROGRAM="$work/helper" "$CLTRAIN" verify --small --mode correct --seed 7 -t 'softmax.*' --jobs 2
expect_text 'could not be used' "^$(wc -l <names) passed, 0 failed"
expect_code 2 "$CLTRAIN" verify-worker --pattern 'relu.*' 3<&-
expect_text 'is for cltrain itself'

# Commands that hang.
ended 0 devices
lost fp64 hung "no answer in $seconds s"
ended 1 verify
lost_check
expect_text "the driver did not answer in $seconds s"
finish
