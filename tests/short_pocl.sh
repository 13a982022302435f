#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: short_pocl.sh LIBRARY OUT SHORT_LIBRARY SOURCE...
# Links to an installed PoCL (its library LIBRARY) in the folder OUT, with two files of its own that have only the built-in functions of OpenCL
# that the kernel files SOURCE name: opencl-c.h, their declarations, which PoCL reads for each program (895 KB otherwise: more
# than a fifth of the time of building one), and the bitcode of the functions for this processor, which PoCL reads in each process that
# compiles (10 MB otherwise; SHORT_LIBRARY, made from short_library.c, writes it). A name of which a macro makes several by digits at its
# end, as of vload, stands for all of them; a function that is missing is an error of the build. OUT/vendors is what OCL_ICD_VENDORS is
# given.
set -euo pipefail
export LC_ALL=C
library=$1 out=$2 short_library=$3
shift 3
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
# PoCL takes the library of the largest instruction set that the processor has. If its LLVM has no C interface (code 1), the library stays
# whole: tests then only take longer.
variant=none
for set in avx2 avx512; do
    if grep -q "^flags.* $set" /proc/cpuinfo 2>/dev/null; then variant=$set; fi
done
for file in "$out"/share/pocl/kernel-*-"$variant".bc; do
    if [ ! -e "$file" ]; then
        echo "no library of built-in functions is shortened: there is none for a processor like this ($variant)" >&2
        continue
    fi
    code=0
    "$short_library" "$library" "$out/words" "$file" "$out/short.bc" || code=$?
    case $code in
    0) mv "$out/short.bc" "$file" ;;
    1) echo "$file stays whole" >&2 ;;
    *) exit "$code" ;;
    esac
done
echo "$out/lib/this/$(basename "$library")" >"$out/vendors/pocl.icd"
