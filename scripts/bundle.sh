#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a folder that runs on a machine with nothing but a C library and a device's OpenCL driver: the program, the MPI module where it was
# built, the configs, and the shared libraries they need (not those of the C library, whose version must be at least this machine's, and
# no driver). Usage: scripts/bundle.sh [FOLDER [BUILD_FOLDER]]; default: bundle, build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-bundle}
build=${2:-build}
limit_kib=65536

# Libraries that come with the C library: they must be those of the machine that runs the program.
libc='^(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libutil|libnss_.*|libmvec|libanl)\.so'

# closure FILE...: the libraries that they need, without the C library's. A library that is not found ends the script.
closure() {
    local missing list
    list=$(ldd "$@")
    missing=$(awk '/not found/ { print $1 }' <<<"$list" | sort -u)
    [ -z "$missing" ] || { echo "missing libraries: $missing" >&2; exit 1; }
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' <<<"$list" | sort -u |
        while read -r library; do [[ $(basename "$library") =~ $libc ]] || echo "$library"; done
}

[ -f "$build/CMakeCache.txt" ] || cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release
targets=(cltrain_bundle)
if grep -q '^CLTRAIN_MPI:BOOL=ON' "$build/CMakeCache.txt"; then targets+=(cltrain_comm_mpi); fi
cmake --build "$build" --target "${targets[@]}"

if [ -e "$folder" ] && [ ! -f "$folder/BUNDLE" ]; then
    echo "$folder exists and was not made by this script" >&2
    exit 1
fi
rm -rf "$folder"
mkdir -p "$folder/lib" "$folder/configs"
echo 'made by scripts/bundle.sh; it replaces this folder' >"$folder/BUNDLE"
cp "$build/bundle_stage/cltrain" "$folder/"
files=("$folder/cltrain")
if [ -f "$build/cltrain_comm_mpi.so" ]; then
    cp "$build/cltrain_comm_mpi.so" "$folder/"
    files+=("$folder/cltrain_comm_mpi.so")
fi
cp configs/*.json "$folder/configs/"
cp LICENSE README.md "$folder/"
libraries=$(closure "${files[@]}")
while read -r library; do
    cp -L "$library" "$folder/lib/$(basename "$library")"
done <<<"$libraries"

size=$(du -sk "$folder" | cut -f1)
[ "$size" -le "$limit_kib" ] || { echo "$folder has $size KiB, more than $limit_kib" >&2; exit 1; }
echo "$folder: $size KiB, libraries: $(ls "$folder/lib" | tr '\n' ' ')"
