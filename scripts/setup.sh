# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
#
# Functions that demo.sh and test.sh share: install what is missing on Debian 12, Ubuntu 22.04 or 24.04, and
# build with a CMake preset. Source this file; do not run it.

CLTRAIN_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Packages for a build and a run. PoCL is the OpenCL device of machines that have no other.
CLTRAIN_PACKAGES=(build-essential cmake ninja-build pkg-config ocl-icd-opencl-dev opencl-headers libclblast-dev
    libcjson-dev zlib1g-dev libjpeg-dev libpng-dev libcurl4-openssl-dev pocl-opencl-icd)
# "cltrain data fetch" downloads with curl or wget.
command -v curl >/dev/null || command -v wget >/dev/null || CLTRAIN_PACKAGES+=(curl ca-certificates)
# Additional packages for several devices or hosts.
CLTRAIN_MPI_PACKAGES=(libopenmpi-dev openmpi-bin)
# Additional packages for the tests. The optional ones are tools: without them their tests are skipped, with
# the reason.
CLTRAIN_TEST_PACKAGES=(libcmocka-dev)
CLTRAIN_OPTIONAL_PACKAGES=(oclgrind clang-format clang iproute2)

say() { printf '== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing_of() {
    local package
    for package in "$@"; do is_installed "$package" || echo "$package"; done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "installing packages needs root, and there is no sudo; as root run: $*"
    fi
}

# install_packages NEEDED... [-- OPTIONAL...]: prints the missing packages and installs them.
install_packages() {
    local needed=() optional=() into=needed argument
    for argument in "$@"; do
        if [ "$argument" = -- ]; then into=optional
        elif [ $into = needed ]; then needed+=("$argument")
        else optional+=("$argument"); fi
    done
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "this is neither Debian nor Ubuntu; the build goes on and needs what these packages hold: ${needed[*]}"
        return 0
    fi
    local missing extra=() package
    mapfile -t missing < <(missing_of "${needed[@]}")
    mapfile -t optional < <([ ${#optional[@]} -eq 0 ] || missing_of "${optional[@]}")
    [ ${#missing[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ] && return 0

    [ "$(id -u)" -eq 0 ] || say "packages are installed with sudo"
    # env: sudo does not pass variables on.
    if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q; then
        [ ${#missing[@]} -eq 0 ] || die "apt-get update failed; missing: ${missing[*]}"
        say "apt-get update failed; going on without ${optional[*]} (tests that need them are skipped)"
        return 0
    fi
    for package in ${optional[@]+"${optional[@]}"}; do
        if apt-cache show "$package" >/dev/null 2>&1; then extra+=("$package")
        else say "$package is not available here; tests that need it are skipped"; fi
    done
    local wanted=(${missing[@]+"${missing[@]}"} ${extra[@]+"${extra[@]}"})
    [ ${#wanted[@]} -gt 0 ] || return 0
    say "installing: ${wanted[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${wanted[@]}" ||
        die "apt-get install failed; see its messages above"
}

# preset_folder PRESET: prints the preset's build folder in CMakePresets.json.
preset_folder() {
    case $1 in
    release | ci) echo "$CLTRAIN_ROOT/build" ;;
    dev) echo "$CLTRAIN_ROOT/build-dev" ;;
    *) die "there is no preset '$1'; choose dev, release or ci" ;;
    esac
}

# build PRESET TARGET CMAKE_OPTION...
build() {
    local preset=$1 target=$2 folder generator=()
    shift 2
    folder=$(preset_folder "$preset") || exit 1
    # A folder that was configured with another generator keeps this generator.
    if [ ! -f "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
    say "configuring: cmake --preset $preset"
    (cd "$CLTRAIN_ROOT" && cmake --preset "$preset" ${generator[@]+"${generator[@]}"} "$@" >"$folder.log" 2>&1) ||
        { cat "$folder.log" >&2; die "cmake failed"; }
    rm -f "$folder.log"
    say "building into $folder"
    (cd "$CLTRAIN_ROOT" && cmake --build --preset "$preset" --target "$target" --parallel "$(nproc)") || die "the build failed"
}
