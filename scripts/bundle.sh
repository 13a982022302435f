#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a folder that runs on a machine with nothing but a C library and a device's OpenCL driver: the program, the configs, the
# shared libraries they need, and, where the MPI module was built, that module and an mpirun for the ranks of one machine. Not in
# it: the C library, whose version must be at least this machine's, and drivers.
#
# usage: scripts/bundle.sh [FOLDER [BUILD_FOLDER]]; default: bundle, build.
#
#   cltrain, cltrain_comm_mpi.so, cltrain_loopback.so, mpirun, device_report.sh (with help.sh and peer_torch.py, its peer), configs/, licenses/
#   lib/        libraries that come before the system's
#   lib/last/   libraries that come after the system's: drivers use them too, and may need newer ones than these
#   lib/mpi/    Open MPI's launcher and plug-ins
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in -*) echo "bundle.sh: '$1' is no folder; --help says what the script does" >&2; exit 2 ;; esac
folder=${1:-bundle}
build=${2:-build}
limit_kib=65536

# Libraries that come with the C library: they must be those of the machine that runs the program.
libc='^(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libutil|libnss_.*|libmvec|libanl)\.so'
# Libraries of lib/; all others go into lib/last/.
own='^lib(OpenCL|clblast|cjson|jpeg|png16|mpi|open-[a-z]+|mca_common_[a-z]+|event_[a-z]+-[0-9.]+|pmix)\.so'
# Libraries for networks, batch systems and shared memory that one machine's ranks do not use: plug-ins that need them stay away.
foreign='lib(ucp|uct|ucs|ucm|fabric|ibverbs|rdmacm|psm[a-z0-9_]*|oshmem|nl-[a-z0-9-]+|cuda|portals'
foreign+='|mca_common_(ucx|ofi|verbs|ompio|monitoring))\.so'

# closure FILE...: the libraries that they need, without the C library's. A library that is not found ends the script.
closure() {
    local missing list
    list=$(ldd "$@")
    missing=$(awk '/not found/ { print $1 }' <<<"$list" | sort -u)
    [ -z "$missing" ] || { echo "missing libraries: $missing" >&2; exit 1; }
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' <<<"$list" | sort -u |
        while read -r library; do [[ $(basename "$library") =~ $libc ]] || echo "$library"; done
}

# ships SOURCE: notes the file for its licence.
sources=()
ships() { sources+=("$(readlink -f "$1")"); }

# Open MPI 3 and 4 find everything by environment variables, which the script mpirun sets.
add_mpi() {
    local launcher plugins texts pmix plugin needs file
    launcher=$(command -v orterun) || return 1
    plugins=$(ompi_info --parsable --path pkglibdir | cut -d: -f3)
    texts=$(ompi_info --parsable --path pkgdatadir | cut -d: -f3)
    [ -d "$plugins" ] && [ -d "$texts" ] || return 1
    mkdir -p "$folder/lib/mpi/openmpi" "$folder/lib/mpi/pmix" "$folder/lib/mpi/share" "$folder/lib/mpi/etc"
    cp -L "$launcher" "$folder/lib/mpi/orterun"
    cp -L "$build/cltrain_comm_mpi.so" "$build/cltrain_loopback.so" "$folder/"
    ships "$launcher"
    files+=("$launcher" "$build/cltrain_comm_mpi.so")
    needs=$(ldd "$plugins"/mca_*.so)
    for plugin in $(awk -v foreign="^$foreign" '
        /^\// { sub(/:$/, ""); plugin = $0; good[plugin] = 1 }
        $1 ~ foreign { good[plugin] = 0 }
        END { for (plugin in good) if (good[plugin]) print plugin }' <<<"$needs"); do
        cp -L "$plugin" "$folder/lib/mpi/openmpi/"
        files+=("$plugin")
    done
    cp -L "$texts"/help-*.txt "$folder/lib/mpi/share/"
    pmix=$(closure "${files[@]}" | grep '/libpmix\.so' || true)
    if [ -n "$pmix" ]; then
        ships "$pmix"
        pmix=$(dirname "$(readlink -f "$pmix")")
        for plugin in "$pmix"/pmix/*.so; do
            [ -e "$plugin" ] || continue
            cp -L "$plugin" "$folder/lib/mpi/pmix/"
            files+=("$plugin")
        done
        for file in "$pmix"/../share/pmix/help-*.txt; do
            if [ -e "$file" ]; then cp -L "$file" "$folder/lib/mpi/share/"; fi
        done
    fi
    cat >"$folder/lib/mpi/etc/openmpi-mca-params.conf" <<'TEXT'
# Ranks of one machine only: memory between them, no network, and no ssh to start them.
btl = self,vader,tcp
pml = ob1
plm = isolated
TEXT
    cat >"$folder/mpirun" <<'TEXT'
#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mpirun of the Open MPI in this folder, for ranks on this machine.
self=$(readlink -f "$0" 2>/dev/null || echo "$0")
here=$(cd "${self%/*}" && pwd) || exit 1
mpi=$here/lib/mpi
export OPAL_PREFIX="$mpi" OPAL_BINDIR="$mpi" OPAL_LIBDIR="$here/lib" OPAL_PKGLIBDIR="$mpi/openmpi" OPAL_PKGDATADIR="$mpi/share" \
    OPAL_DATADIR="$mpi/share" OPAL_SYSCONFDIR="$mpi/etc" PMIX_PREFIX="$mpi" PMIX_LIBDIR="$here/lib" PMIX_PKGLIBDIR="$mpi/pmix" \
    PMIX_PKGDATADIR="$mpi/share" PMIX_SYSCONFDIR="$mpi/etc"
# The linker puts the system's library folder in the place of $LIB.
export LD_LIBRARY_PATH="$here/lib:${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}"'/$LIB:/usr/$LIB:'"$here/lib/last"
export HOME="${HOME:-/}" # some containers have neither this nor a user's entry, and PMIx needs one
exec "$mpi/orterun" "$@"
TEXT
    chmod +x "$folder/mpirun"
}

# What the packages of the shipped files say about their licences, where this system can tell.
add_licenses() {
    command -v dpkg-query >/dev/null || return 0
    local file package
    mkdir -p "$folder/licenses"
    for file in "${sources[@]}"; do
        # A file is known under one of /lib and /usr/lib.
        package=$({ dpkg-query -S "$file" || dpkg-query -S "${file#/usr}"; } 2>/dev/null | head -n 1 | cut -d: -f1) || true
        if [ -n "$package" ] && [ -e "/usr/share/doc/$package/copyright" ]; then
            cp -L "/usr/share/doc/$package/copyright" "$folder/licenses/$package.txt"
        fi
    done
}

# The newest version of the C library that a file of the folder asks for.
needed_libc() {
    find "$folder" -type f \( -name '*.so*' -o -perm -u+x \) -exec readelf -V {} + 2>/dev/null |
        grep -o 'GLIBC_2\.[0-9]*' | sort -t. -k2 -n | tail -n 1 | cut -d_ -f2
}

[ -f "$build/CMakeCache.txt" ] || cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release
targets=(cltrain_bundle)
with_mpi=
# Into a variable: `grep -q` behind a pipe ends before make does, and pipefail takes make's SIGPIPE for "not found".
known=$(cmake --build "$build" --target help)
if [[ $known == *cltrain_comm_mpi* ]]; then
    with_mpi=yes
    targets+=(cltrain_comm_mpi cltrain_loopback)
fi
cmake --build "$build" --target "${targets[@]}"

if [ -e "$folder" ] && [ ! -f "$folder/BUNDLE" ]; then
    echo "$folder exists and was not made by this script" >&2
    exit 1
fi
rm -rf "$folder"
mkdir -p "$folder/lib/last" "$folder/configs"
echo 'made by scripts/bundle.sh, which replaces this folder' >"$folder/BUNDLE"
cp "$build/bundle_stage/cltrain" "$folder/"
cp configs/*.json "$folder/configs/"
cp LICENSE README.md scripts/device_report.sh scripts/help.sh tests/bench/peer_torch.py "$folder/"
files=("$build/bundle_stage/cltrain")
if [ -n "$with_mpi" ] && ! add_mpi; then
    echo "without MPI: this machine has no Open MPI 3 or 4 with orterun and its plug-ins" >&2
fi
libraries=$(closure "${files[@]}")
while read -r library; do
    name=$(basename "$library")
    if [[ $name =~ $own ]]; then place=$folder/lib; else place=$folder/lib/last; fi
    cp -L "$library" "$place/$name"
    ships "$library"
done <<<"$libraries"
add_licenses

size=$(du -sk "$folder" | cut -f1)
[ "$size" -le "$limit_kib" ] || { echo "$folder has $size KiB, more than $limit_kib" >&2; exit 1; }
echo "needs the C library glibc $(needed_libc) or newer, and an OpenCL driver" >>"$folder/BUNDLE"
names=$(cd "$folder/lib" && find . -maxdepth 2 -name 'lib*' -printf '%P ')
echo "$folder: $size KiB, for glibc $(needed_libc) or newer; libraries: $names"
