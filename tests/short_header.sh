#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: short_header.sh LIBRARY OUT SOURCE...
# Links to an installed PoCL (its library LIBRARY) in the folder OUT, with one file of its own: opencl-c.h, the declarations of OpenCL's
# built-in functions, has only those that are named in the kernel files SOURCE. PoCL reads this header, 895 KB otherwise, for each
# program: more than a fifth of the time of building one. A name of which a macro makes several by digits at its end, as of vload,
# stands for all of them; a function that is missing is an error of the build. OUT/vendors is what OCL_ICD_VENDORS is given.
set -euo pipefail
export LC_ALL=C
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
echo "$out/lib/this/$(basename "$library")" >"$out/vendors/pocl.icd"
