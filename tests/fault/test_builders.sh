#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# Programs compiled by child processes (cl/program/builders.h): the training takes them from the driver's
# cache, with the same losses as without children; if a compiler crashes in a child, only the users of its
# program are lost, and training continues.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
CLTRAIN_LOG=debug "$CLTRAIN" devices >devices.txt 2>&1
grep -q 'quirk own_cache' devices.txt || skip_all "the device's driver builds in threads, or keeps nothing: children are not used"
need_shim
export CLTRAIN_CACHE_DIR=$work/cache LD_PRELOAD=$shim # the device's answers come from the first run, in which nothing goes wrong

cat >mlp.json <<'JSON'
{"model": {"type": "mlp", "hidden": [32], "outputs": 4},
 "data": {"type": "synthetic", "samples": 256, "shape": [12], "classes": 4, "micro_batch": 16},
 "optimizer": {"type": "adamw", "learning_rate": 0.01, "clip": 1},
 "train": {"steps": 6, "log_every": 1}, "device": {"tune": "off"}}
JSON

# trains BUILDERS NAME [VARIABLE=VALUE...]: trains with an empty driver's cache.
trains() {
    local builders=$1 name=$2
    shift 2
    mkdir "pocl-$name"
    expect_code 0 env POCL_CACHE_DIR="$work/pocl-$name" CLTRAIN_BUILDERS="$builders" "$@" \
        "$CLTRAIN" train mlp.json --out "$name"
    values loss "$name/metrics.jsonl" >"$name.loss"
    with_log "$name"
}
same_losses() {
    if cmp -s one.loss "$1.loss"; then pass; else fail "$1: losses differ from those without children"; fi
}

trains 1 one
expect_text ' 0 compiled in child processes'
trains 2 two
expect_text ' [1-9][0-9]* compiled in child processes'
same_losses two
find pocl-two -name '*.so' | grep -q . || fail 'the children left nothing in the driver'\''s cache'

# A compiler that crashes in a child.
trains 2 crashed CLT_SHIM='build:family=gemm_lane:abort;log=shim.log'
expect_text "gemm_lane.*the compiler ended its process with SIGABRT.*'cltrain cache --clear pocl' empties it"
grep -q 'build gemm_lane' shim.log || fail 'nothing crashed'
paste one.loss crashed.loss >both # of products by another kernel
expect_awk 'crashed: losses differ from those without children' \
    '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || !(d < 1e-4)) bad = 1 } END { exit bad || NR < 6 }' both

# A driver with the name of Intel's runtime for CPUs: it has children, too, but no cache of its own, so the
# children fill cltrain's cache of binaries.
intel=(CLT_SHIM='platform=Intel(R) OpenCL' CLTRAIN_CACHE_DIR="$work/cache_intel")
expect_code 0 env "${intel[@]}" CLTRAIN_LOG=debug "$CLTRAIN" devices
expect_text 'quirk serial_builds'
reject_text 'quirk own_cache'
rm -rf cache_intel/programs # those of the self-tests
trains 2 intel "${intel[@]}"
expect_text ' [1-9][0-9]* compiled in child processes'
same_losses intel
if [ "$(find cache_intel -name '*.program' | wc -l)" -ge 4 ]; then pass; else fail 'the children left no binaries'; fi
if find cache_intel -name '*.built' | grep -q .; then fail 'marks of a driver that keeps nothing'; else pass; fi
trains 2 again "${intel[@]}" POCL_CACHE_DIR="$work/pocl-intel" # which is part of what a kept binary is for
expect_text ' 0 compiled in child processes'
same_losses again
# At the first start, all children that asked the device continue as builders, and no other child is
# started; if one ends after its first answers, a new one is started.
cat >program <<SH
#!/usr/bin/env bash
[ "\$2" = --device ] || exec $CLTRAIN "\$@"
IFS= read -r line
word=\${line%%[[:blank:]]*}
echo "\$word" >>$work/children
[ "\$word\$GONE" != ask1 ] || exec $CLTRAIN "\$@" <<<"\$line"
exec 4<&0
exec $CLTRAIN "\$@" < <(printf '%s\n' "\$line"; exec cat <&4 3>&-)
SH
chmod +x program
first_start() { # NAME GONE
    rm -f children
    trains 2 "$1" CLTRAIN_CACHE_DIR="$work/cache_$1" CLTRAIN_PROGRAM="$work/program" GONE="$2"
    expect_text ' [1-9][0-9]* compiled in child processes'
    same_losses "$1"
}
if [ "$(nproc)" -ge 2 ]; then
    first_start stayed 0
    expect_awk 'two children ask and build' '/ask/ { ask++ } /open/ { build++ } END { exit ask != 2 || build > 0 }' children
    first_start gone 1
    expect_awk 'children that are gone are replaced' '/open/ { build++ } END { exit build != 2 }' children
else
    note_skip 'on one core a single child asks the device, and it is not kept'
fi
# What the self-tests compiled is kept with the rest: the next start compiles nothing.
trains 2 kept "${intel[@]}" CLTRAIN_CACHE_DIR="$work/cache_kept" CLTRAIN_PROGRAM="$work/program"
expect_text ' [1-9][0-9]* compiled in child processes'
trains 2 kept_again "${intel[@]}" CLTRAIN_CACHE_DIR="$work/cache_kept" POCL_CACHE_DIR="$work/pocl-kept"
expect_awk 'a kept program was built again' '/ programs, [0-9]+ of them from the cache, 0 compiled/ {
    match($0, /[0-9]+ programs/); all = substr($0, RSTART) + 0; match($0, /[0-9]+ of them/); ok = all == substr($0, RSTART) + 0 && all > 0
} END { exit !ok }' "$out"
same_losses kept_again

# A program that only the evaluation needs cannot be built: the others are built as usual, and the
# evaluation takes another kernel.
trains 2 ahead CLT_SHIM='build:family=cross_entropy+!option=KEEP_EXP+!option=WG:error;log=ahead.log'
expect_text ' [1-9][0-9]* compiled in child processes' "this run continues without variant 'row', which 'loss.forward' needed"
if [ -s ahead.log ]; then pass; else fail 'no program of the evaluation failed'; fi

# While a compiler does not return, the wait is reported with the kernel's name.
mkdir pocl-slow
POCL_CACHE_DIR=$work/pocl-slow CLTRAIN_BUILDERS=2 CLTRAIN_BUILD_SECONDS=0.5 CLT_SHIM='build:family=adam:hang' \
    "$CLTRAIN" train mlp.json --out slow >slow.txt 2>&1 &
process=$!
await_from $process grep -q "compiler has been compiling 'adam' (.*-DONLY=.*) for 0.5 s" slow.txt
kill -9 $process
wait $process 2>/dev/null
finish
