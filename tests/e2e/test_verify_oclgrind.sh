#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# The small cases of every op and GEMM backend under the interpreter Oclgrind: no invalid access, no data
# race, no use of an uninitialised value. And the script detects a kernel with such a fault.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v oclgrind >/dev/null || skip_all "oclgrind is not installed (package oclgrind)"
if grep -q -a __asan_init "$CLTRAIN"; then skip_all "a program with AddressSanitizer does not run under oclgrind"; fi
export CLTRAIN_PROBE_SECONDS=1000000 # the interpreter is slow, and no answer of it is too slow
oclgrind "$CLTRAIN" devices >devices 2>&1
grep -q Oclgrind devices || { cp devices "$out"; skip_all "oclgrind's device is not visible to the program"; }

# watched LOG COMMAND...: runs the command under the interpreter.
watched() {
    local log=$1
    shift
    guarded oclgrind --data-races --uninitialized --log "$log" "$@" >"$out" 2>&1 </dev/null
}

# Oclgrind 21.10 itself crashes (SIGSEGV) if its search for uninitialised values meets certain shuffles of vectors: those checks are
# run without that search.
if watched report "$CLTRAIN" verify --small --mode correct --seed 5 --limit 1000000; then
    pass
    expect_text '^[0-9]{3,} passed, 0 failed'
else
    cp "$out" all.txt
    failed=$(sed -n 's/^FAIL  *\([^ ]*\).*/\1/p' all.txt)
    crashed=$(grep -c 'the driver ended the worker process with SIGSEGV' all.txt)
    if [ -n "$failed" ] && [ "$(wc -w <<<"$failed")" -eq "$crashed" ] && [ "$crashed" -le 8 ]; then pass
    else fail "the small cases do not pass under oclgrind"; fi
    for name in $failed; do
        note_skip "$name: oclgrind --uninitialized crashes"
        if guarded oclgrind --data-races --log races "$CLTRAIN" verify --seed 5 -t "$name" >"$out" 2>&1; then pass
        else fail "$name does not pass under oclgrind --data-races"; fi
        if [ -s races ]; then fail "$name: $(head -n 3 races)"; fi
    done
fi
if [ -s report ]; then
    head -n 40 report
    fail "oclgrind reports something"
else
    pass
fi

mkdir kernels
sed 's|^#define STORE_f32(p, i, v).*|#define STORE_f32(p, i, v) ((p)[i] = (v), (p)[(i) + 1000000000] = 0.0f)|' \
    "$CLTRAIN_BUILD_DIR/kernels/common.clh" >kernels/common.clh
CLTRAIN_KERNEL_DIR=$work/kernels watched planted "$CLTRAIN" verify --mode correct -t 'relu.one[lane]'
if grep -q 'Invalid write' planted; then pass; else fail "an invalid write was planted and not reported"; fi
finish
