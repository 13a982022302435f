#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: short_header.sh LIBRARY OUT SOURCE...
# Links to an installed PoCL (its library LIBRARY) in the folder OUT, with one file of its own: opencl-c.h, the declarations of OpenCL's
# built-in functions, has only those that are named in the kernel files SOURCE. PoCL reads this header, 895 KB otherwise, for each
# program: more than a fifth of the time of building one. A name of which a macro makes several by digits at its end, as of vload,
# stands for all of them; a function that is missing is an error of the build. OUT/vendors is what OCL_ICD_VENDORS is given.
#
# PoCL also reads its library of built-in functions, 9 MB of LLVM's code, in each process that builds something new: half a second.
# Where llvm-extract of PoCL's own version of LLVM is installed, OUT has a library of the named functions, what they call, and
# all constants.
set -euo pipefail
export LC_ALL=C
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"
library=$1 out=$2
shift 2
share=$(dirname "$library")/../../share/pocl
rm -rf "$out"
mkdir -p "$out/lib/this" "$out/share/pocl/include" "$out/vendors"
ln -s "$library" "$out/lib/this/" # PoCL finds its files by the name under which its library was loaded
[ ! -d "$(dirname "$library")/pocl" ] || ln -s "$(dirname "$library")/pocl" "$out/lib/this/pocl"
ln -s "$(realpath "$share")"/*.bc "$out/share/pocl/"
ln -s "$(realpath "$share")"/include/* "$out/share/pocl/include/"
rm "$out/share/pocl/include/opencl-c.h"
cat "$@" | tr -c 'A-Za-z0-9_' '\n' | sort -u >"$out/words"
awk '
    NR == FNR { named[$0]; next }
    /__ovld/ && /;[ \t]*$/ {
        line = $0
        gsub(/__attribute__\(\([^)]*\)\)/, "", line)
        if (match(line, /[A-Za-z_][A-Za-z_0-9]* *\(/)) {
            name = substr(line, RSTART, RLENGTH)
            sub(/ *\(/, "", name)
            family = name
            sub(/[0-9]+$/, "", family)
            if (!(name in named) && !(family in named)) next
        }
    }
    { print }' "$out/words" "$share/include/opencl-c.h" >"$out/share/pocl/include/opencl-c.h"

# functions_of LIBRARY: an option for each function that is named in the kernel files, and for PoCL's own helpers. The library's names
# are mangled: _Z, a length, and the name, which _cl_ precedes.
functions_of() {
    "llvm-nm-$llvm" --defined-only "$1" | awk '
        NR == FNR { named[$0]; next }
        { symbol = $NF; name = "" }
        symbol ~ /^(__?pocl|pocl|printf)/ { print "--func=" symbol }
        match(symbol, /^_Z[0-9]+/) {
            name = substr(symbol, RLENGTH + 1, substr(symbol, 3, RLENGTH - 2))
            sub(/^_cl_/, "", name)
            family = name
            sub(/[0-9]+$/, "", family)
            if (name in named || family in named) print "--func=" symbol
        }' "$out/words" -
}

# missing_in LIBRARY: what its functions call or read and no part of it holds, such as libm's functions
missing_in() { "llvm-nm-$llvm" --undefined-only "$1" | awk '{ print $NF }' | sort; }

llvm=$(llvm_of "$library")
if [ -n "$llvm" ] && command -v "llvm-extract-$llvm" >/dev/null && command -v "llvm-nm-$llvm" >/dev/null; then
    for file in "$out"/share/pocl/*.bc; do
        functions_of "$file" >"$out/functions"
        if [ -s "$out/functions" ] && "llvm-extract-$llvm" --recursive --rglob=. "@$out/functions" "$file" -o "$out/part.bc" &&
            [ -z "$(comm -13 <(missing_in "$file") <(missing_in "$out/part.bc"))" ]; then
            rm "$file" # the link
            mv "$out/part.bc" "$file"
        fi
    done
fi
echo "$out/lib/this/$(basename "$library")" >"$out/vendors/pocl.icd"
