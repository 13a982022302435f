#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# The programs of a GPU's probes and self-tests are built at the same time before they are asked
# (cl/probes/asking.c), on the simulated NVIDIA GPU (tests/ptx). The answers are the same as if each program
# were built only for its question: with a good driver; with a compiler that ends the process, hangs or
# refuses at one program, which costs the capability of that program alone; and with a compiler that does
# not work with two threads, which costs nothing.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/ptx_exec_lib.sh"
shim=$CLTRAIN_BUILD_DIR/tests/driver_shim.so
[ -e "$shim" ] || skip_all "there is no $shim"
export CLTRAIN_PTX_SM=80 CLTRAIN_LOG=debug CLTRAIN_BUILDERS=3
export CLTRAIN_PROBE_SECONDS=1000000 # no answer is too slow

# asked NAME RULE COMMAND...: asks a driver that behaves as RULE says; NAME.json: its capabilities.
asked() {
    local name=$1 rule=$2
    shift 2
    export CLTRAIN_CACHE_DIR=$work/cache.$name
    expect_code 0 env LD_PRELOAD="$shim" CLT_SHIM="$rule" "$@" "$CLTRAIN" devices --json
    sed -n '/^{/,$p' "$out" | grep -v '"[a-z]*_bytes"' >"$name.json"
}
# lost "CAPABILITY..." STATE: these alone were lost, besides one that clang does not compile.
lost() {
    if [ "$(sed -n "s/^warning: .*goes without '\([a-z0-9_]*\)' ($2).*/\1/p" "$out" | grep -v int64_atomics | tr '\n' ' ')" = "${1:+$1 }" ]; then pass; else fail "$1 alone expected to be $2"; fi
    if [ "$(grep -c "^warning: .*goes without '" "$out")" -le 2 ]; then pass; else fail "more than $1 was lost"; fi
}
ahead='debug: device .*: [1-9][0-9]* programs of'

asked one 'log=calls.one' CLTRAIN_BUILDERS=1
reject_text 'were built ahead'
asked ahead 'log=calls.ahead'
expect_text "$ahead probes were built ahead" "$ahead self-tests were built ahead"
expect_same one.json ahead.json

# The compiler ends the process at one program: of a probe, of a self-test.
asked probe 'build:option=PROBE_FP64:abort'
expect_text 'building programs ahead ended with SIGABRT'
lost fp64 crashed
reject_text 'try CLTRAIN_BUILDERS=1'
asked test 'build:family=gemm_mma+option=MMA_BF16=1:segfault'
expect_text "$ahead probes were built ahead" 'building programs ahead ended with SIGSEGV'
lost mma_bf16 crashed

# It refuses one.
asked refused 'build:option=PROBE_FP64:error=-11'
expect_text "$ahead probes were built ahead" "$ahead self-tests were built ahead"
lost fp64 refused

# It cannot be called by two threads.
asked threads 'build:threads=2:abort'
expect_text 'building programs ahead ended with SIGABRT' 'building several programs at the same time failed .*try CLTRAIN_BUILDERS=1'
expect_same one.json threads.json

# It never returns from one: abandoned twice, after a hundred times what a healthy compiler needs.
asked hang 'build:option=PROBE_FP64:hang' CLTRAIN_PROBE_SECONDS=$((20 * ${CLTRAIN_TEST_PATIENCE:-1}))
expect_text 'no program was built ahead in'
lost fp64 hung
finish
