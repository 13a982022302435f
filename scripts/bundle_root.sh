#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a folder with the C library, the other libraries and the headers of an older Debian, or of another
# processor, for `scripts/bundle.sh --root FOLDER`. Packages are only unpacked there: no program of a package
# runs, so this machine's processor does not matter, and nothing outside the folder changes. Needs mmdebstrap
# and the keys of Debian's archives (packages mmdebstrap, debian-archive-keyring) and about 500 MB of disk,
# but no root rights.
#
# usage: scripts/bundle_root.sh FOLDER [ARCHITECTURE [SUITE [MIRROR]]]
#   ARCHITECTURE  as Debian names it, such as amd64 (default: this machine's) or arm64
#   SUITE         default: bullseye (Debian 11, glibc 2.31)
#   MIRROR        server of the suite's packages (default: Debian's mirror); for a suite that is no longer maintained,
#                 Debian's archive
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
[[ ${1:--} != -* && $# -le 4 ]] || { echo 'usage: scripts/bundle_root.sh FOLDER [ARCHITECTURE [SUITE [MIRROR]]]' >&2; exit 2; }
root=$(realpath -m -- "$1") # absolute, because the trap below may run inside of it
architecture=${2:-}
suite=${3:-bullseye}
command -v mmdebstrap >/dev/null || { echo 'mmdebstrap is not installed (package mmdebstrap)' >&2; exit 1; }
[ -n "$architecture" ] || architecture=$(dpkg --print-architecture)
if [ -e "$root" ] && [ -n "$(ls -A "$root")" ]; then
    echo "$root exists and is not empty" >&2
    exit 1
fi

# base-files has the texts of licences that other packages only name.
packages=libc6-dev,libclblast-dev,libcjson-dev,libcmocka-dev,libcurl4-openssl-dev,libjpeg-dev,libopenmpi-dev,libpng-dev,ocl-icd-opencl-dev,openmpi-bin,zlib1g-dev,base-files

# mmdebstrap runs `record` with the folder as its argument. It adds the unpacked packages to the folder's
# database, so that `dpkg-query` knows to which package a file belongs.
record=$(cat <<'TEXT'
set -eu
cd "$1"
for package in var/cache/apt/archives/*.deb; do
    name=$(dpkg-deb -f "$package" Package)
    [ "$(dpkg-deb -f "$package" Multi-Arch)" != same ] || name=$name:$(dpkg-deb -f "$package" Architecture)
    { echo 'Status: install ok unpacked'; dpkg-deb -f "$package"; echo; } >>var/lib/dpkg/status
    dpkg-deb --fsys-tarfile "$package" | tar -t | sed 's/^\.//; s#/$##; s#^$#/.#' >"var/lib/dpkg/info/$name.list"
done
echo 1 >var/lib/dpkg/info/format
TEXT
)
mkdir -p "$root"
trap 'echo "no root folder was made" >&2; rm -rf "$root"' EXIT # after an error, Ctrl-C and a signal to end, too
# mmdebstrap makes an archive, not the folder, so that the files belong to the user who unpacks the archive.
mmdebstrap --variant=extract --skip=check/qemu --architectures="$architecture" --include="$packages" --extract-hook="$record" \
    "$suite" - ${4:+"$4"} | tar -x -C "$root" --exclude=./dev --exclude='./var/cache/*' --no-same-owner

# Absolute links would lead out of the folder, so they are made relative.
cd "$root"
find . -xdev -type l -lname '/*' -printf '%P\t%l\n' | while IFS=$'\t' read -r link target; do
    ln -sfn "$(realpath -m -s --relative-to="$(dirname "$link")" ".$target")" "$link"
done
trap - EXIT
