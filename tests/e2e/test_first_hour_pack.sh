#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# What a newcomer finds around the program: the caches listed and cleared by name.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HOME=$work/home XDG_CACHE_HOME='' COLUMNS=80
unset CLTRAIN_CACHE_DIR POCL_CACHE_DIR
mkdir home

# --- cltrain cache ---
expect_code 0 "$CLTRAIN" cache
expect_text "programs +empty  $work/home/.cache/cltrain/programs" "pocl +empty  $work/home/.cache/pocl/kcache" 'cltrain cache --clear'
expect_awk 'a line of the list is longer than 80 columns' '!/\// && length > 80 { exit 1 }' "$out"
expect_absent home/.cache
mkdir -p home/.cache/cltrain/{programs,answers,tuning} home/.cache/pocl/kcache/AB/CD home/.nv/ComputeCache
chmod -R go= home/.cache
printf 12345 >home/.cache/cltrain/programs/0123456789abcdef.program
printf 12 >home/.cache/cltrain/tuning/device.json
printf '{}' >home/.cache/cltrain/answers/device.json
printf 1234567 >home/.cache/pocl/kcache/AB/CD/program.bc
printf 1 >home/.nv/ComputeCache/index
expect_code 0 "$CLTRAIN" cache
expect_text 'programs +5 B' 'tuning +2 B' 'pocl +7 B' 'nvidia +1 B' '^9 B of cltrain'
expect_code 0 "$CLTRAIN" cache --json
cp "$out" cache.json
expect_text '"name": "pocl"' '"owner": "driver"' '"bytes": 7' '"cleared": false'
if command -v python3 >/dev/null; then expect_code 0 python3 -m json.tool cache.json; fi
expect_code 0 "$CLTRAIN" cache --clear tuning
expect_text 'tuning +2 B in 1 file' 'removed: 2 B in 1 file'
expect_absent home/.cache/cltrain/tuning
expect_file home/.cache/cltrain/programs/0123456789abcdef.program home/.cache/pocl/kcache/AB/CD/program.bc
expect_code 0 "$CLTRAIN" cache --clear
expect_absent home/.cache/cltrain/programs home/.cache/cltrain/answers
expect_file home/.cache/pocl/kcache/AB/CD/program.bc home/.nv/ComputeCache/index
expect_code 0 "$CLTRAIN" cache --clear --all --json
expect_text '"removed_bytes": 7'
expect_absent home/.cache/pocl/kcache/AB
expect_file home/.nv/ComputeCache/index
expect_code 0 "$CLTRAIN" cache --clear
expect_text 'nothing to remove'
expect_code 2 "$CLTRAIN" cache --clear nvidia
expect_text "home/.nv/ComputeCache' by hand"
expect_file home/.nv/ComputeCache/index
expect_code 2 "$CLTRAIN" cache --clear tunings
expect_text "no cache 'tunings'; there are programs, answers, tuning"
expect_code 2 "$CLTRAIN" cache tuning
expect_code 2 "$CLTRAIN" cache --all
finish
