#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
# ctest-cost: 15
#
# PoCL's cache of kernels: files that are cut off are removed and built again, a folder that cannot be used
# is replaced by another one, and what PoCL does to the process is explained. The run continues in all cases
# except the last two.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
no_binaries # nothing but that cache
# PoCL alone: a GPU beside it would be used instead.
vendors=${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}
entry=$(grep -l pocl "$vendors"/*.icd 2>/dev/null | head -n 1)
if [ -n "$entry" ]; then
    mkdir vendors
    cp "$entry" vendors/pocl.icd
    export OCL_ICD_VENDORS=$work/vendors
    unset OCL_ICD_FILENAMES OPENCL_VENDOR_PATH
fi
CLTRAIN_LOG=debug "$CLTRAIN" devices >devices.txt 2>&1
if grep -E '^[0-9]+:[0-9]+ ' devices.txt | grep -q -v PoCL; then skip_all "$vendors has no entry for PoCL, and there are other devices"; fi
grep -q 'quirk own_cache' devices.txt || skip_all 'the device is not one of PoCL'
export CLTRAIN_GEMM=simple # starts fastest
own_cache "$work/cache"
unset POCL_CACHE_DIR XDG_CACHE_HOME
export HOME=$work/home TMPDIR=$work/tmp
mkdir home tmp
kernels=$work/home/.cache/pocl/kcache
cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [], "outputs": 1, "loss": "mse"}, "train": {"steps": 2},
 "data": {"type": "synthetic", "samples": 8, "shape": [3], "micro_batch": 4}}
JSON
trains() { # RUN...: trains and keeps what it says
    expect_code 0 "$CLTRAIN" train net.json --out "$@"
    with_log "$1"
}
trains first
reject_text 'PoCL'
values loss first/metrics.jsonl >first.loss
cp -r "$kernels" whole

# --- files that are cut off ---
# cut WHAT COMMAND: the first five files of that kind are changed by the command, and the training goes on with the same losses.
cut_files() {
    local files
    mapfile -t files < <(find "$kernels" -name "$1" | sort | head -n 5)
    shift
    [ "${#files[@]}" -eq 5 ] || fail "PoCL's cache has another layout than is known here"
    for file in "${files[@]}"; do "$@" "$file"; done
    trains again
    expect_text "^warning: 5 truncated files of PoCL's cache in '$kernels'.* PoCL builds them again"
    expect_same first.loss <(values loss again/metrics.jsonl)
    rm -rf again
}
zeros() { head -c "$(stat -c %s "$1")" /dev/zero >"$1.new" && mv "$1.new" "$1"; }
half() { truncate -s $(($(stat -c %s "$1") / 2)) "$1"; }
cut_files '*.so' truncate -s 0
cut_files '*.so' half
cut_files '*.so' zeros
cut_files '*.bc' truncate -s 0
cut_files '*.bc' half
trains again
reject_text 'PoCL'
rm -rf again
# without the records about the device and programs
rm -rf cache
find "$kernels" -name '*.so' -exec truncate -s 100 {} +
expect_code 0 "$CLTRAIN" devices
expect_text "^warning: [0-9]+ truncated files of PoCL's cache " '^[0-9]+:[0-9]+ .* caps .*local'
reject_text crashed
truncate -s 3 "$(find "$kernels" -name '*.so' | head -n 1)"
expect_code 0 "$CLTRAIN" doctor
expect_text "^warn .*1 built kernels of PoCL in '$kernels' were cut off" '^healthy'

# A large cache is checked only sometimes: after a process that was killed, and after the machine's start.
kernel=$kernels/AP/ABCDEFGHIJKLMNOPABCDEFGHIJKLMNOPABCDE/kernel
for i in $(seq 301); do mkdir -p "$kernel/$i-1-1" && cp "$(find whole -name '*.bc' | head -n 1)" "$kernel/$i-1-1/parallel.bc"; done
truncate -s 3 "$kernel/1-1-1/kernel.so"
expect_code 0 "$CLTRAIN" devices
expect_text "^warning: 1 truncated file of PoCL's cache "
[ "$(find cache/listing -name 'pocl-*.json' | wc -l)" -eq 1 ] && pass || fail 'it is not noted that the cache was looked at'
truncate -s 3 "$kernel/1-1-1/kernel.so"
touch -d '1 hour ago' cache/listing/pocl-*.json
expect_code 0 "$CLTRAIN" devices
expect_text 'truncated file'
rm -r "$kernels/AP/ABCDEFGHIJKLMNOPABCDEFGHIJKLMNOPABCDE"
# Files that are not PoCL's stay, whatever their names.
mkdir -p "$kernels"/x/y "$kernels/AB/short"
touch "$kernels"/x/y/calc.bc "$kernels/AB/short/calc.bc"
expect_code 0 "$CLTRAIN" doctor
reject_text 'cut off'
[ -e "$kernels/x/y/calc.bc" ] && [ -e "$kernels/AB/short/calc.bc" ] && pass || fail "a file that is not PoCL's is removed"
rm -r "$kernels"/x "$kernels/AB/short"

# --- folders that cannot be used ---
: >file
mkdir cache/pocl
chmod 700 cache/pocl
cp -r whole/. cache/pocl
export HOME=$work/file
trains other
expect_text "^warning: PoCL keeps its kernels in '$work/cache/pocl', since its folder '$work/file/.cache/pocl/kcache' cannot be used: .*not a folder" \
    'set POCL_CACHE_DIR to choose another'
expect_same first.loss <(values loss other/metrics.jsonl)
expect_code 0 "$CLTRAIN" doctor
expect_text "^warn .*PoCL's folder for built kernels '$work/file/.cache/pocl/kcache' cannot be used: .*lets it use '$work/cache/pocl'" \
    '-> set HOME or XDG_CACHE_HOME to a folder .*POCL_CACHE_DIR' '^healthy'
expect_code 0 "$CLTRAIN" cache
expect_text "$work/cache/pocl$"
for variable in XDG_CACHE_HOME POCL_CACHE_DIR; do
    expect_code 0 env HOME="$work/home" "$variable=$work/file" "$CLTRAIN" devices
    expect_text "^warning: PoCL keeps its kernels in '$work/cache/pocl'" ' caps .*local'
done
expect_code 0 env -u HOME "$CLTRAIN" devices
expect_text 'neither XDG_CACHE_HOME nor HOME is set'
expect_code 0 env CLTRAIN_CACHE_DIR="$work/file" "$CLTRAIN" version
expect_text "^warning: PoCL keeps its kernels in '$work/tmp/cltrain-pocl-$(id -u)'"
[ "$(stat -c %a tmp/cltrain-pocl-*)" = 700 ] && pass || fail 'others may write where PoCL keeps its kernels'
namespace=(unshare --mount)
[ "$(id -u)" -eq 0 ] || namespace+=(--map-root-user)
mkdir none
if "${namespace[@]}" mount -t tmpfs -o noexec none none 2>/dev/null; then
    # shellcheck disable=SC2016 # $1 is the inner shell's
    expect_code 0 env HOME="$work/none" "${namespace[@]}" sh -c 'mount -t tmpfs -o noexec none "$1" && "$2" devices' sh "$work/none" "$CLTRAIN"
    expect_text "^warning: PoCL keeps its kernels in '$work/cache/pocl', .*mounted with noexec" ' caps .*local'
else
    note_skip 'no mount namespace is allowed here: a file system with noexec is not tried'
fi

export HOME=$work/home
# a folder inside, in which root has built kernels
closed=$kernels/AB
mkdir -p "$closed"
if [ "$(id -u)" -ne 0 ]; then
    chmod 555 "$closed"
    truncate -s 3 "$(find cache/pocl -name '*.so' | head -n 1)"
    expect_code 0 "$CLTRAIN" doctor
    expect_text "^warn .*PoCL's folder for built kernels '$kernels' cannot be used: .*may not write into '$closed'.*lets it use '$work/cache/pocl'" \
        "as root: chown -R $(id -u) '$kernels'" "1 built kernels of PoCL in '$work/cache/pocl' were cut off" '^healthy'
    expect_code 0 "$CLTRAIN" cache
    expect_text "$work/cache/pocl$"
    [ -n "$(find cache/pocl -name program.bc)" ] && pass || fail 'the folder in use is empty already'
    expect_code 0 "$CLTRAIN" cache --clear pocl
    [ -z "$(find cache/pocl -name program.bc)" ] && [ -d "$closed" ] && pass || fail 'another folder than the one in use is cleared'
    # one cache that cannot be cleared does not stop the others
    mkdir -m 700 shut shut/icd shut/icd/0123456789abcdef shut/pocl shut/pocl/AB
    echo 1 | tee shut/icd/0123456789abcdef/a.icd >shut/pocl/AB/kernel
    chmod 555 shut/icd/0123456789abcdef
    expect_code 8 env CLTRAIN_CACHE_DIR="$work/shut" "$CLTRAIN" cache --clear --all
    expect_text "removing '$work/shut/icd/0123456789abcdef/a.icd': Permission denied" "pocl +2 B in 1 file, from $work/shut/pocl$"
    expect_absent shut/pocl/AB
    chmod 755 "$closed" shut/icd/0123456789abcdef
else
    note_skip 'root may write everywhere, so a folder of kernels that is closed to the user is not tried'
fi

# --- something ends the process ---
# A signal from outside is not the driver's doing, and ends the process as usual.
ulimit -c 0
"$CLTRAIN" train net.json train.steps=4000000 --out killed >killed.txt 2>&1 </dev/null &
process=$!
await_from $process has_updates killed
kill -ABRT $process
wait $process
code=$?
cp killed.txt "$out"
if [ $code -eq 134 ]; then pass; else fail "SIGABRT: code $code instead of 134"; fi
reject_text 'device lost' 'abort\(\)'
# Kernels that are damaged in the middle, which their headers cannot show: however the process ends, a line
# names the cache, and without the cache the run works. Byte 0xf4 is an instruction that no program may use.
expect_code 0 "$CLTRAIN" train net.json --out whole
find "$HOME/.cache/pocl" -name '*.so' >libraries
expect_file libraries
while IFS= read -r library; do
    size=$(stat -c %s "$library")
    head -c $((size / 3)) /dev/zero | tr '\0' '\364' | dd of="$library" bs=64k seek=$((size / 3)) oflag=seek_bytes conv=notrunc 2>/dev/null
done <libraries
"$CLTRAIN" train net.json --out damaged >"$out" 2>&1 </dev/null
if [ -s libraries ] && grep -q "'cltrain cache --clear pocl'" "$out"; then pass; else fail "a damaged cache is not named: $(head -n 5 "$out")"; fi
expect_code 0 "$CLTRAIN" cache --clear pocl
expect_code 0 "$CLTRAIN" devices --again
expect_code 0 "$CLTRAIN" train net.json --out mended
reject_text 'continues without'
need_shim
export LD_PRELOAD=$shim
CLT_SHIM='build:family=no_such:error' expect_code 0 "$CLTRAIN" devices # what is known of the device, with the shim
CLT_SHIM='launch:family=adam:abort' expect_code 10 "$CLTRAIN" train net.json --out ended
expect_text '^cltrain: device lost: something in this process called abort\(\) or crashed, most likely the driver of device .* .cltrain cache --clear pocl.'
finish
