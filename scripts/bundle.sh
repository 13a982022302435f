#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a folder that runs on a machine that has only a C library and a device's OpenCL driver: the program,
# the configs, the shared libraries that the program needs, and, if the MPI module was built, that module and
# an mpirun for the ranks of one machine. Drivers and the C library are not in the folder; the machine's C
# library must not be older than the one with which the bundle was made.
#
# usage: scripts/bundle.sh [--root ROOT] [--glibc VERSION] [FOLDER [BUILD_FOLDER]]; default: bundle, build.
#
#   --root ROOT      make the bundle for the system in ROOT, a folder of scripts/bundle_root.sh: with an older C library,
#                    or for another processor. The libraries come from ROOT, the compiler is this machine's
#                    (cmake/root.cmake). The default of BUILD_FOLDER is build/for-ROOT
#   --glibc VERSION  refuse to make a bundle that needs a newer C library than this, such as 2.31; default: ROOT's
#
#   cltrain, cltrain_comm_mpi.so, cltrain_loopback.so, mpirun, device_report.sh (with help.sh and peer_torch.py, its peer), configs/
#   licenses/   packages.txt: package and version of every library; PACKAGE.txt: its licence; common/: texts to which
#               the licences refer
#   lib/        libraries that come before the system's
#   lib/last/   libraries that come after the system's, because drivers use them, too, and may need newer versions
#   lib/mpi/    Open MPI's launcher and plug-ins
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wrong() { echo "bundle.sh: $1; --help says what the script does" >&2; exit 2; }
root='' given='' glibc='' places=() # given: `yes` for a system in a folder
while [ $# -gt 0 ]; do
    case $1 in
    --root) root=$(realpath -e -- "${2:-}") || wrong "--root needs a folder"; given=yes; shift ;;
    --glibc) glibc=${2:-}; [[ $glibc =~ ^2\.[0-9]+$ ]] || wrong "--glibc needs a version such as 2.31"; shift ;;
    -*) wrong "'$1' is not a folder" ;;
    *) places+=("$1") ;;
    esac
    shift
done
[ ${#places[@]} -le 2 ] || wrong "'${places[2]}' is one folder too many"
final=${places[0]:-bundle}
build=${places[1]:-build${root:+/for-$(basename "$root")}}
root=${root%/} # nothing for /, whose files have no other name
limit_kib=65536

# Libraries that come with the C library: the program must use the ones of the machine it runs on.
libc='^(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libutil|libnss_.*|libmvec|libanl)\.so'
# Libraries that go into lib/; all others go into lib/last/.
own='^lib(OpenCL|clblast|cjson|jpeg|png16|mpi|open-[a-z]+|mca_common_[a-z]+|event_[a-z]+-[0-9.]+|pmix)\.so'
# Libraries for networks, batch systems and kinds of shared memory that the ranks of one machine do not use.
# Plug-ins that need them are left out of the bundle.
foreign='lib(ucp|uct|ucs|ucm|fabric|ibverbs|rdmacm|psm[a-z0-9_]*|oshmem|nl-[a-z0-9-]+|cuda|portals'
foreign+='|mca_common_(ucx|ofi|verbs|ompio|monitoring))\.so'

# walk FILE...: prints the same as ldd, for files of the system in $root, whose programs may not run here.
walk() {
    local asked file name path place queue
    local -A needed=() paths=() seen
    for asked; do
        echo "$asked:"
        queue=("$asked")
        seen=()
        while [ ${#queue[@]} -gt 0 ]; do
            file=${queue[0]}
            queue=("${queue[@]:1}")
            [ -n "${needed[$file]+known}" ] || needed[$file]=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
            for name in ${needed[$file]}; do
                [ -z "${seen[$name]:-}" ] || continue
                seen[$name]=yes
                for place in "$root/lib/$triplet" "$root/usr/lib/$triplet" "$root/usr/lib"; do
                    if [ -z "${paths[$name]:-}" ] && [ -e "$place/$name" ]; then paths[$name]=$place/$name; fi
                done
                path=${paths[$name]:-}
                echo "$name => ${path:-not found}"
                if [ -n "$path" ]; then queue+=("$path"); fi
            done
        done
    done
}

# closure FILE...: prints the libraries that the files need, without the C library's. A library that is not
# found ends the script.
closure() {
    local missing list
    list=$("$needs_of" "$@")
    missing=$(awk '/not found/ { print $1 }' <<<"$list" | sort -u)
    [ -z "$missing" ] || { echo "missing libraries: $missing" >&2; exit 1; }
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' <<<"$list" | sort -u |
        while read -r library; do [[ $(basename "$library") =~ $libc ]] || echo "$library"; done
}

# ships SOURCE: remembers the file, so that its licence is added.
sources=()
ships() { sources+=("$1"); }

# Open MPI 3 and 4 find their files by environment variables, which the script mpirun sets.
add_mpi() {
    local launcher plugins texts pmix plugin needs file
    if [ -n "$given" ]; then
        launcher=$root/usr/bin/orterun
        plugins=$(find "$root/usr/lib" -name mca_pml_ob1.so -printf '%h\n')
        texts=$root/usr/share/openmpi
    else
        launcher=$(command -v orterun) || return 1
        plugins=$(ompi_info --parsable --path pkglibdir | cut -d: -f3)
        texts=$(ompi_info --parsable --path pkgdatadir | cut -d: -f3)
    fi
    [ -x "$launcher" ] && [ -d "$plugins" ] && [ -d "$texts" ] || return 1
    mkdir -p "$folder/lib/mpi/openmpi" "$folder/lib/mpi/pmix" "$folder/lib/mpi/share" "$folder/lib/mpi/etc"
    cp -L "$launcher" "$folder/lib/mpi/orterun"
    cp -L "$build/cltrain_comm_mpi.so" "$build/cltrain_loopback.so" "$folder/"
    ships "$launcher"
    files+=("$launcher" "$build/cltrain_comm_mpi.so")
    needs=$("$needs_of" "$plugins"/mca_*.so)
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
# Only the ranks of one machine: they use shared memory and no network, and are started without ssh.
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

# Copies the licences of the shipped files from their packages, if the system has Debian packages. With
# --root a file without a licence ends the script, since every file in that folder comes from a package.
add_licenses() {
    local source file package version database=(dpkg-query "--admindir=$root/var/lib/dpkg")
    command -v dpkg-query >/dev/null && [ -s "$root/var/lib/dpkg/status" ] || return 0
    mkdir -p "$folder/licenses/common"
    for source in "${sources[@]}"; do
        # The package database lists a file either under /lib or under /usr/lib.
        file=$(readlink -f "$source")
        file=${file#"$root"}
        package=$({ "${database[@]}" -S "$file" || "${database[@]}" -S "${file#/usr}"; } 2>/dev/null | head -n 1 | cut -d' ' -f1) || true
        package=${package%:}
        if [ -n "$package" ] && [ -e "$root/usr/share/doc/${package%:*}/copyright" ]; then
            cp -L "$root/usr/share/doc/${package%:*}/copyright" "$folder/licenses/${package%:*}.txt"
            version=$("${database[@]}" -W -f '${Version}' "$package")
            echo "$(basename "$source"): $package $version" >>"$folder/licenses/packages.txt"
        else
            echo "no licence is known for $file" >&2
            [ -z "$given" ] || exit 1
        fi
    done
    { grep -ohs '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$folder"/licenses/*.txt || true; } | sort -u |
        while read -r file; do
            [ -e "$root$file" ] || { echo "a licence names $root$file, which is not there" >&2; continue; }
            cp -L "$root$file" "$folder/licenses/common/"
        done
}

# Prints a line "FILE 2.N" for each program and library of the folder: the oldest C library with which the
# file works.
needed_glibc() {
    # The exit code is ignored, because readelf ends with an error for scripts, which are not ELF files.
    find "$folder" -type f \( -name '*.so*' -o -perm -u+x \) -exec sh -c 'readelf -V "$@" 2>/dev/null || true' sh {} + |
        awk -v folder="$folder/" '/^File: / { file = substr($0, 7 + length(folder)) }
            match($0, /GLIBC_2\.[0-9]+/) { minor = substr($0, RSTART + 8, RLENGTH - 8) + 0; if (minor > most[file]) most[file] = minor }
            END { for (file in most) print file, "2." most[file] }' | sort
}

needs_of=ldd
for_root=()
if [ -n "$given" ]; then
    needs_of=walk
    systems=("$root"/usr/lib/*-linux-gnu*/libc.so)
    [ ${#systems[@]} -eq 1 ] || { echo "$root has the headers of more than one C library: ${systems[*]}" >&2; exit 1; }
    triplet=$(basename "$(dirname "${systems[0]}")")
    system_libc=$root/lib/$triplet/libc.so.6
    [ -e "$system_libc" ] || { echo "$root is not a folder of scripts/bundle_root.sh: it has no C library with headers" >&2; exit 1; }
    [ -n "$glibc" ] || glibc=$(grep -a -o 'release version 2\.[0-9]*' "$system_libc" | grep -o '2\..*')
    for_root=("-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/root.cmake" "-DCLTRAIN_ROOT=${root:-/}" -DBUILD_TESTING=OFF)
fi
[ -f "$build/CMakeCache.txt" ] || cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release "${for_root[@]}"
targets=(cltrain_bundle)
with_mpi=
# The output goes into a variable, not into a pipe: `grep -q` would end before make, and pipefail would count
# make's SIGPIPE as "not found".
known=$(cmake --build "$build" --target help)
if [[ $known == *cltrain_comm_mpi* ]]; then
    with_mpi=yes
    targets+=(cltrain_comm_mpi cltrain_loopback)
fi
cmake --build "$build" --target "${targets[@]}"
machine() { readelf -h "$1" | sed -n 's/^ *Machine: *//p'; }
if [ -n "$given" ] && [ "$(machine "$build/bundle_stage/cltrain")" != "$(machine "$system_libc")" ]; then
    echo "$build was not made for $root: its program is for another processor" >&2
    exit 1
fi

if [ -e "$final" ] && [ ! -f "$final/BUNDLE" ]; then
    echo "$final exists and was not made by this script" >&2
    exit 1
fi
# The bundle is made in a temporary folder beside the final one and renamed at the end: if a bundle is
# refused, the previous one does not change.
mkdir -p "$(dirname "$final")"
temporary=$(mktemp -d -- "${final%/}.XXXXXX")
trap 'rm -rf "$temporary"' EXIT
folder=$temporary/made
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

by_file=$(needed_glibc)
grep -q '^cltrain 2\.' <<<"$by_file" || { echo "the program does not say what it needs of the C library" >&2; exit 1; }
newest=$(cut -d' ' -f2 <<<"$by_file" | sort -V | tail -n 1)
if [ -n "$glibc" ] && [ "$(printf '%s\n' "$newest" "$glibc" | sort -V | tail -n 1)" != "$glibc" ]; then
    echo "no bundle for glibc $glibc can be made from these files, which need a newer one:" >&2
    while read -r file version; do
        [ "$(printf '%s\n' "$version" "$glibc" | sort -V | tail -n 1)" = "$glibc" ] || echo "  $file needs $version"
    done <<<"$by_file" >&2
    exit 1
fi
size=$(du -sk "$folder" | cut -f1)
[ "$size" -le "$limit_kib" ] || { echo "the bundle has $size KiB, more than $limit_kib" >&2; exit 1; }
echo "needs the C library glibc $newest or newer, and an OpenCL driver" >>"$folder/BUNDLE"
names=$(cd "$folder/lib" && find . -maxdepth 2 -name 'lib*' -printf '%P ')
rm -rf "$final"
mv "$folder" "$final"
echo "$final: $size KiB, for glibc $newest or newer; libraries: $names"
