#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 20
#
# cmake --install into an empty folder: the installed program runs; docs/example.c (60 lines at most), in a project outside the
# repository, is built against the installed tree by pkg-config and by find_package, with the shared and the static library, trains,
# saves, and gets errors as codes and messages. The installed tree may be moved; "uninstall" removes all of it.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build=${CLTRAIN_BUILD_DIR:?set it to the build folder}
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
compiler=$(cached CMAKE_C_COMPILER)
flags=(-std=c11 -Wall -Wextra -Wpedantic -Werror -O1)
[ "$(cached CLTRAIN_SANITIZE)" = ON ] && flags+=(-fsanitize=address,undefined)
libdir=$(cached CMAKE_INSTALL_LIBDIR)
cp "$CLTRAIN_SOURCE_DIR/docs/example.c" example.c

# The list of installed files in the build folder belongs to its user: it is restored at the end.
[ ! -f "$build/install_manifest.txt" ] || cp "$build/install_manifest.txt" manifest
expect_code 0 cmake --install "$build" --prefix "$work/first place"
# No file contains the path of the installation, so the tree may be moved.
mv 'first place' prefix
expect_code 1 grep -r -l -F "$work/first place" prefix --include='*.pc' --include='*.cmake'
lib=$work/prefix/$libdir
expect_file prefix/bin/cltrain prefix/include/cltrain.h "$lib/libcltrain.so" "$lib/libcltrain.a" prefix/share/cltrain/configs/mlp-mnist.json
[ "$(cached CLTRAIN_MPI)" = ON ] && expect_file "$lib/cltrain/cltrain_comm_mpi.so" && expect_file "$lib/cltrain/cltrain_loopback.so"

# The manual page and the completion equal what the program prints, and are where man and the shells look
# for them.
for pair in share/man/man1/cltrain.1=man 'share/bash-completion/completions/cltrain=completion bash' \
    'share/zsh/site-functions/_cltrain=completion zsh' 'share/fish/vendor_completions.d/cltrain.fish=completion fish'; do
    # shellcheck disable=SC2086 # words
    expect_code 0 "$CLTRAIN" ${pair#*=}
    expect_same "$out" "prefix/${pair%%=*}"
done
if command -v man >/dev/null && man --version >/dev/null 2>&1; then
    expect_code 0 env MANPATH="$work/prefix/share/man" man -w cltrain
    expect_text 'prefix/share/man/man1/cltrain.1'
fi

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
    expect_text '^rank +host +device'
else
    note_skip 'mpirun is not installed, the installed MPI module was not loaded'
fi

# The library exports its interface and nothing else.
nm -D --defined-only "$lib/libcltrain.so" | awk '{ print $3 }' | grep -v -E '^(cltrain_|__asan|__odr_asan|__ubsan)' >exported
if [ -s exported ]; then fail "libcltrain.so exports more than its interface: $(tr '\n' ' ' <exported)"; else pass; fi
for name in $(grep -o 'cltrain_[a-z_]*(' "$CLTRAIN_SOURCE_DIR/engine/cltrain.h" | grep -v '\*' | tr -d '(' | sort -u); do
    if nm -D --defined-only "$lib/libcltrain.so" | grep -q " $name\$"; then pass; else fail "libcltrain.so lacks $name"; fi
done

# runs PROGRAM [shared]: the example's loss falls, and it saves its net. It finds the program cltrain, for its child processes,
# relative to the library; the static version needs the variable.
runs() {
    rm -f rings.safetensors
    expect_code 0 env CLTRAIN_PROGRAM="${program:-}" "$1"
    expect_awk "$1: the loss did not fall" '/^step/ { v[++n] = $NF } END { exit !(n >= 5 && v[n] < 0.5 * v[1]) }' "$out"
    expect_awk "$1: not learnt" '/accuracy/ { good = $4 + 0 >= 90 } END { exit !good }' "$out"
    expect_file rings.safetensors
    expect_code 0 grep -a -q '"linear3.weight":{"dtype":"F32","shape":\[3,32\]' rings.safetensors
}
# links PROGRAM yes|no: checks whether the program needs libcltrain.so.
links() {
    local have=no
    if readelf -d "$1" | grep -q 'NEEDED.*libcltrain\.so\.0\]'; then have=yes; fi
    if [ "$have" = "$2" ]; then pass; else fail "$1 needs libcltrain.so: $have"; fi
}
if [ "$(wc -l <example.c)" -le 60 ]; then pass; else fail 'docs/example.c has more than 60 lines'; fi
expect_same example.c prefix/share/doc/cltrain/example.c

# --- pkg-config ---
export PKG_CONFIG_PATH=$lib/pkgconfig
expect_code 0 pkg-config --print-errors --validate cltrain
if [ "$(pkg-config --modversion cltrain)" = "$(CLTRAIN_LOG= "$CLTRAIN" version | sed -n '1s/cltrain //p')" ]; then pass; else fail 'cltrain.pc has another version'; fi
# shellcheck disable=SC2046 # many words
expect_code 0 "$compiler" "${flags[@]}" example.c $(pkg-config --cflags --libs cltrain) -Wl,-rpath,"$(pkg-config --variable=libdir cltrain)" -o by-pc-shared
links by-pc-shared yes
runs ./by-pc-shared
expect_code 4 env OCL_ICD_VENDORS=/nonexistent ./by-pc-shared
expect_text 'no OpenCL driver is installed'
# shellcheck disable=SC2046
expect_code 0 "$compiler" "${flags[@]}" example.c $(pkg-config --cflags --libs --static cltrain | sed 's/-lcltrain/-l:libcltrain.a/') -o by-pc-static
links by-pc-static no
program=$work/prefix/bin/cltrain runs ./by-pc-static

# --- find_package ---
mkdir project && cp example.c project/
cat >project/CMakeLists.txt <<'TEXT'
cmake_minimum_required(VERSION 3.22)
project(rings LANGUAGES C)
find_package(cltrain 0.1 REQUIRED)
add_executable(by-cmake-shared example.c)
target_link_libraries(by-cmake-shared PRIVATE cltrain::cltrain)
find_package(cltrain 0.1 REQUIRED COMPONENTS static)
add_executable(by-cmake-static example.c)
target_link_libraries(by-cmake-static PRIVATE cltrain::static)
TEXT
expect_code 0 env -u PKG_CONFIG_PATH cmake -S project -B made -DCMAKE_C_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_FLAGS="${flags[*]}"
expect_code 0 cmake --build made
links made/by-cmake-shared yes
links made/by-cmake-static no
runs made/by-cmake-shared
program=$work/prefix/bin/cltrain runs made/by-cmake-static
# Another version is refused, and so is an unknown component; without the packages of the static library
# only the shared one is available.
sed 's/cltrain 0.1/cltrain 9.1/' project/CMakeLists.txt >CMakeLists.txt
expect_code 1 cmake -S . -B refused -DCMAKE_C_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/prefix"
expect_text 'version' '9\.1'
cat >CMakeLists.txt <<'TEXT'
cmake_minimum_required(VERSION 3.22)
project(rings LANGUAGES C)
find_package(cltrain REQUIRED)
if(TARGET cltrain::static OR NOT TARGET cltrain::cltrain)
  message(FATAL_ERROR "not as expected")
endif()
find_package(cltrain COMPONENTS static)
message(STATUS "static: ${cltrain_FOUND}")
TEXT
expect_code 0 env -u PKG_CONFIG_PATH PKG_CONFIG_LIBDIR="$work/none" cmake -S . -B shared_only -DCMAKE_C_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/prefix"
expect_text 'static: (0|FALSE)' 'libcjson'

# --- uninstall, and a staged installation ---
expect_code 0 env DESTDIR="$work/stage" cmake --install "$build" --prefix /opt/some
expect_file stage/opt/some/bin/cltrain "stage/opt/some/$libdir/pkgconfig/cltrain.pc"
touch stage/opt/some/share/cltrain/mine
expect_code 0 env DESTDIR="$work/stage" cmake --build "$build" --target uninstall
expect_text 'removed [0-9]+ files'
if [ "$(find stage -type f)" = stage/opt/some/share/cltrain/mine ]; then pass; else fail "uninstall left: $(find stage -type f | tr '\n' ' ')"; fi
expect_absent stage/opt/some/lib/cltrain "stage/opt/some/$libdir/cmake/cltrain"
expect_code 1 cmake -DBUILD="$build" -P "$CLTRAIN_SOURCE_DIR/cmake/uninstall.cmake"
expect_text 'nothing was installed'
[ ! -f manifest ] || cp manifest "$build/install_manifest.txt"

if command -v c++ >/dev/null; then
    printf '#include <cltrain.h>\nint main() { return cltrain_version()[0] == 0; }\n' >plus.cc
    expect_code 0 c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -Iprefix/include -fsyntax-only plus.cc
else
    note_skip 'there is no C++ compiler to check the header with'
fi
finish
