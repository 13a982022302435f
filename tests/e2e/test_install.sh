#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# cmake --install into an empty folder: the installed program runs, docs/example.c (60 lines at most) compiles against the installed
# header with the shared and the static library, trains, saves, and gets errors as codes and messages.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build=${CLTRAIN_BUILD_DIR:?set it to the build folder}
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
compiler=$(cached CMAKE_C_COMPILER)
flags=(-std=c11 -Wall -Wextra -Wpedantic -Werror -O1)
[ "$(cached CLTRAIN_SANITIZE)" = ON ] && flags+=(-fsanitize=address,undefined)
needs=(OpenCL libcjson zlib libpcre2-8)
[ "$(cached CLTRAIN_CLBLAST)" = ON ] && needs+=(clblast)
example=$CLTRAIN_SOURCE_DIR/docs/example.c

expect_code 0 cmake --install "$build" --prefix "$work/prefix"
lib=$work/prefix/$(cached CMAKE_INSTALL_LIBDIR)
expect_file prefix/bin/cltrain prefix/include/cltrain.h "$lib/libcltrain.so" "$lib/libcltrain.a" prefix/share/cltrain/configs/mlp-mnist.json
[ "$(cached CLTRAIN_MPI)" = ON ] && expect_file "$lib/cltrain/cltrain_comm_mpi.so"

# The installed program needs nothing of the build folder.
installed=(env -u CLTRAIN_MODULE_DIR -u LD_LIBRARY_PATH "$work/prefix/bin/cltrain")
expect_code 0 "${installed[@]}" version
expect_text '^cltrain [0-9]+\.[0-9]+'
expect_code 0 "${installed[@]}" config --print prefix/share/cltrain/configs/mlp-regression.json
expect_code 0 "${installed[@]}" train prefix/share/cltrain/configs/mlp-regression.json --max-steps 3 --out run
if command -v mpirun >/dev/null && [ "$(cached CLTRAIN_MPI)" = ON ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # see tests/comm/test_comm_mpi.sh
    expect_code 0 env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0:use_sigaltstack=0" mpirun --oversubscribe --bind-to none -np 2 \
        "${installed[@]}" train prefix/share/cltrain/configs/mlp-regression.json --max-steps 3 --out run2
    expect_text '^ranks +2 over '
else
    note_skip 'mpirun is not installed, the installed MPI module was not loaded'
fi

# The library exports its interface and nothing else.
nm -D --defined-only "$lib/libcltrain.so" | awk '{ print $3 }' | grep -v -E '^(cltrain_|__asan|__odr_asan|__ubsan)' >exported
if [ -s exported ]; then fail "libcltrain.so exports more than its interface: $(tr '\n' ' ' <exported)"; else pass; fi
for name in $(grep -o 'cltrain_[a-z_]*(' "$CLTRAIN_SOURCE_DIR/engine/cltrain.h" | grep -v '\*' | tr -d '(' | sort -u); do
    if nm -D --defined-only "$lib/libcltrain.so" | grep -q " $name\$"; then pass; else fail "libcltrain.so lacks $name"; fi
done

# runs PROGRAM: the example's loss falls, and it saves its net.
runs() {
    rm -f rings.safetensors
    expect_code 0 env LD_LIBRARY_PATH="$lib" "./$1"
    expect_awk "$1: the loss did not fall" '/^step/ { v[++n] = $NF } END { exit !(n >= 5 && v[n] < 0.5 * v[1]) }' "$out"
    expect_awk "$1: not learnt" '/accuracy/ { good = $4 + 0 >= 90 } END { exit !good }' "$out"
    expect_file rings.safetensors
    expect_code 0 grep -a -q '"linear3.weight":{"dtype":"F32","shape":\[3,32\]' rings.safetensors
    expect_code 4 env LD_LIBRARY_PATH="$lib" OCL_ICD_VENDORS=/nonexistent "./$1"
    expect_text 'no OpenCL driver is installed'
}
if [ "$(wc -l <"$example")" -le 60 ]; then pass; else fail "docs/example.c has more than 60 lines"; fi
expect_code 0 "$compiler" "${flags[@]}" -Iprefix/include "$example" -L"$lib" -lcltrain -o shared
runs shared
# shellcheck disable=SC2046 # many words
expect_code 0 "$compiler" "${flags[@]}" -Iprefix/include "$example" "$lib/libcltrain.a" $(pkg-config --libs "${needs[@]}") \
    -lm -ldl -lpthread -o static
runs static
if command -v c++ >/dev/null; then
    printf '#include <cltrain.h>\nint main() { return cltrain_version()[0] == 0; }\n' >plus.cc
    expect_code 0 c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -Iprefix/include -fsyntax-only plus.cc
else
    note_skip 'there is no C++ compiler to check the header with'
fi
finish
