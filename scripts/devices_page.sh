#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes docs/devices.md, the results of OpenCL runtimes in the tests labelled `runtimes`, from the records
# in docs/devices/, one for each runtime.
#
# usage: scripts/devices_page.sh                  writes the page to the standard output: scripts/devices_page.sh >docs/devices.md
#        scripts/devices_page.sh --take FOLDER    copies the records that the tests left in FOLDER (CLTRAIN_RUNTIMES) to docs/devices/
# Environment: CLTRAIN_DEVICE_RECORDS another folder of records (default: docs/devices).
# Exit code: 0 success, 1 a file is not a record of these tests, 2 wrong usage.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
export LC_ALL=C
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
records=${CLTRAIN_DEVICE_RECORDS:-$root/docs/devices}

if [ $# -eq 2 ] && [ "$1" = --take ] && [ -d "$2" ]; then
    mkdir -p "$records"
    for record in "$2"/*/record.json; do
        [ -e "$record" ] || { echo "devices_page.sh: $2 holds no record; run the tests labelled runtimes" >&2; exit 1; }
        cp "$record" "$records/$(basename "$(dirname "$record")").json"
    done
    exit 0
fi
[ $# -eq 0 ] || { sed -n 's/^# \(usage: .*\)/\1/p' "${BASH_SOURCE[0]}" >&2; exit 2; }

# The runtimes in the order of the page: first the ones of scripts/runtimes.sh, then others by name.
files=()
for name in pocl intel pocl-3.0 rusticl oclgrind; do [ ! -e "$records/$name.json" ] || files+=("$records/$name.json"); done
for file in "$records"/*.json; do
    case " ${files[*]-} " in *" $file "*) ;; *) [ ! -e "$file" ] || files+=("$file") ;; esac
done
[ ${#files[@]} -gt 0 ] || { echo "devices_page.sh: there is no record in $records" >&2; exit 1; }

unquoted() { sed 's/\\\(["\\]\)/\1/g; s/|/\\|/g'; }
value() { sed -n -E "s/^  \"$2\": \"(.*)\",\$/\1/p" "$1" | sed -n 1p | unquoted; }
# Prints the checks of a record: name, result, seconds and detail, separated by tabs.
checks() {
    sed -n -E 's/^    \{"check": "([^"]*)", "result": "([^"]*)", "seconds": ([0-9]+), "detail": "(.*)"\},?$/\1\t\2\t\3\t\4/p' "$1" | unquoted
}
# Prints one check of a record: its result, and its seconds in brackets.
check() { checks "$1" | awk -F'\t' -v want="$2" '{ hit = want ~ /\*$/ ? index($1, substr(want, 1, length(want) - 1)) == 1 : $1 == want } hit { print; exit }'; }
verified() { check "$1" 'verify --small*' | awk -F'\t' '{ printf "%s%s", ($2 == "pass" ? "" : "**FAILED** "), $4; if ($1 != "verify --small") printf " (%s)", $1; printf ", %d s", $3 }'; }
apart() {
    check "$1" "$2" | awk -F'\t' '$2 != "pass" { printf "**FAILED**: %s", $4; next }
        { text = $4; sub(/.*largest loss difference /, "", text); sub(/ in steps.*/, "", text); printf "%s%s", text, ($4 ~ /bit-identical/ ? " =" : "") }'
}
last() { local text; text=$("$@"); printf '%s' "${text:--}"; }

for file in "${files[@]}"; do
    if [ -z "$(value "$file" runtime)" ] || [ -z "$(checks "$file")" ]; then
        echo "devices_page.sh: $file is not a record of the tests" >&2
        exit 1
    fi
done

cat <<'TEXT'
# Devices: which OpenCL runtimes were tried, and what they did

Made by `scripts/devices_page.sh` from the records in `docs/devices/`, which the tests labelled `runtimes` leave. To repeat them:

    scripts/runtimes.sh FOLDER                                      # fetches the runtimes; installs nothing
    CLTRAIN_RUNTIMES=FOLDER scripts/test.sh --label runtimes        # those that were not found are skipped
    scripts/devices_page.sh --take FOLDER && scripts/devices_page.sh >docs/devices.md

To test a runtime of your own with them, make a folder `FOLDER/NAME` with `vendors/` (its ICD file) and `env` (variables that it needs, may be empty).

## Runtimes

| runtime | what it is | device | driver | capabilities | goes without |
| --- | --- | --- | --- | --- | --- |
TEXT
for file in "${files[@]}"; do
    echo "| $(value "$file" runtime) | $(value "$file" about) | $(value "$file" device) | $(value "$file" driver), $(value "$file" opencl) | $(last value "$file" capabilities) | $(last value "$file" lost) |"
done
cat <<'TEXT'

PoCL 5.0 of Ubuntu 24.04 (package `pocl-opencl-icd`) has no record: all commands of the README ran with it without a failure
([measurements.md](measurements.md), "a stranger's path"), but not the tests of this page.

## The checker, and training beside PoCL

Losses are compared at every step with the losses of the PoCL in the first row (the promise between vendors is 1e-5 in f32 for the first ten steps, then 1e-4, and
5e-2 in 16 bits). `=` marks runs whose weights after the last step have the same bits. "From PoCL" is a run that is resumed on this runtime from a checkpoint
halfway through PoCL's run; "on PoCL" is the reverse. "Two ranks" is a run of two processes, one of which trains on PoCL
and one on this runtime. Seconds are the time of the whole test, with the compiler's work, on a machine that may have had other work.
"warm": the cache of an earlier run existed, perhaps without some programs. `-`: no record: not tested, or stopped before.

| runtime | start | `verify --small` | f32 | f16 | bf16 | from PoCL, f32 / f16 / bf16 | on PoCL, f32 / f16 / bf16 | two ranks, f32 / f16 / bf16 |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
TEXT
for file in "${files[@]}"; do
    printf '| %s | %s | %s |' "$(value "$file" runtime)" "$(value "$file" start)" "$(last verified "$file")"
    for mode in f32 f16 bf16; do printf ' %s |' "$(last apart "$file" "train $mode")"; done
    for way in 'resume % from PoCL' 'resume % on PoCL' 'two ranks %'; do
        printf ' %s / %s / %s |' "$(last apart "$file" "${way/\%/f32}")" "$(last apart "$file" "${way/\%/f16}")" "$(last apart "$file" "${way/\%/bf16}")"
    done
    echo
done
cat <<'TEXT'

## What drivers do differently

| driver | what it does | what cltrain does |
| --- | --- | --- |
| Oclgrind | `sinpi(x)` and `cospi(x)` multiply x by pi in f64 without first reducing x: `sinpi(1)` is 1.2e-16 and not 0, and large arguments give anything from -1 to 1 | quirk `plain_turns`: `verify -t 'builtins.*pi*'` allows an additional error of \|x\| 2^-50, small enough for rotary positions |
| rusticl (llvmpipe) | a result of `fma` below 2^-126 becomes 0 also where rounding would make it 2^-126; OpenCL allows that to a device without subnormal numbers | `verify` accepts both |
| PoCL 3.0 | building a kernel with vectors of 16 does not end | the probe's time limit: no `wide_vectors`; kernels use work-groups |
| PoCL 3.0 | a program taken from its cache on disk has no kernels | quirk `stale_cache`: PoCL's cache is off |
| hwloc, by which MPI looks at the machine | loads every OpenCL driver before a rank can tell PoCL its share of the cores | ranks load MPI with `HWLOC_COMPONENTS=-opencl`, unless the variable is set |
TEXT
printf '\n## Each test\n'
for file in "${files[@]}"; do
    printf '\n### %s\n\n%s, cltrain: %s, host: %s, trained: %s.\n\n| test | result | seconds | |\n| --- | --- | --- | --- |\n' "$(value "$file" runtime)" \
        "$(value "$file" date)" "$(value "$file" cltrain)" "$(value "$file" host)" "$(value "$file" trained)"
    checks "$file" | awk -F'\t' '{ printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 }'
done
