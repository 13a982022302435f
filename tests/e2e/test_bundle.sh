#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 20 ctest-optimise: no
#
# scripts/bundle.sh: the folder that it makes works in any place, with its own libraries; in a root folder that contains only the C
# library in addition, it starts, reports what is missing, and its mpirun starts ranks. It holds the licence of every library. A bundle
# that needs a newer C library than it may is refused, and --root finds the same files as the dynamic linker.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build=${CLTRAIN_BUILD_DIR:?set it to the build folder}
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
[ "$(cached CLTRAIN_SANITIZE)" = ON ] && skip_all 'bundles are made from builds without sanitizers'
command -v readelf >/dev/null || skip_all 'readelf is not installed (package binutils)'
vendors=${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}

mkdir mine
expect_code 1 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" "$work/mine" "$build"
expect_text 'was not made by this script'
expect_code 0 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" "$work/made" "$build"
expect_text 'for glibc 2\.[0-9]+ or newer'
foreign=$(sed -n 's/^no licence is known for //p' "$out") # what belongs to no package: somebody put it there by hand
if all_cases; then expect_code 0 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" "$work/made" "$build"; fi # its own folder it replaces
mv made bundle

# What a bundle may not need. 2.2 is the first glibc of x86-64, 2.17 that of aarch64: every program needs a
# newer one.
expect_code 1 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" --glibc 2.2 "$work/bundle" "$build"
expect_text 'no bundle for glibc 2\.2 can be made' '^  cltrain needs 2\.[0-9]+$' '^  lib/libclblast\.so\.[0-9]+ needs 2\.[0-9]+$'
expect_code 0 grep 'or newer, and an OpenCL driver' bundle/BUNDLE # the bundle from before is whole
if [ "$(echo bundle*)" = bundle ]; then pass; else fail "a refused bundle leaves: $(echo bundle*)"; fi
expect_code 2 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" --glibc new "$work/none" "$build"
expect_code 2 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" --root "$work/none" "$work/none" "$build"

# Systems in a folder. Which triplet in /usr/lib is this machine's follows from the C library that the
# program uses here.
libraries=$(ldd bundle/cltrain | grep -o '/[^ ]*')
libc=$(grep '/libc\.so\.6$' <<<"$libraries")
triplet=$(basename "$(dirname "$libc")")
if [[ $triplet == *-linux-gnu* ]]; then
    systems=(/usr/lib/*-linux-gnu*/libc.so)
    if [ ! -s /var/lib/dpkg/status ] || [ "${systems[*]}" != "/usr/lib/$triplet/libc.so" ]; then
        note_skip "this is not a system of Debian's kind, or it has the headers of two C libraries: ${systems[*]}"
    elif [ -n "$foreign" ]; then
        note_skip "the bundle has files that belong to no package: $foreign"
    else # this machine's as if it were another one's: libraries found without running anything are those that ldd names
        expect_code 0 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" --root / "$work/same" "$build"
        expect_code 0 diff -r bundle same
        for library in bundle/lib/lib*.so* bundle/lib/last/lib*.so*; do
            package=$(sed -n "s/^${library##*/}: \([^ :]*\).*/\1/p" bundle/licenses/packages.txt)
            if [ -s "bundle/licenses/${package:-none}.txt" ]; then pass; else fail "the bundle has no licence of $library"; fi
        done
        if grep -oh '/usr/share/common-licenses/[A-Z][A-Za-z]*' bundle/licenses/*.txt | sort -u >named; then
            while read -r text; do
                expect_file "$(find bundle/licenses/common -name "${text##*/}*" | head -n 1)"
            done <named
        else
            fail 'no licence names a common one'
        fi
    fi
    mkdir -p "poor/usr/lib/$triplet" "poor/lib/$triplet"
    cp -L "$libc" "poor/lib/$triplet/"
    touch "poor/usr/lib/$triplet/libc.so"
    expect_code 1 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" --root "$work/poor" "$work/none" "$build"
    expect_text 'missing libraries: ' 'libOpenCL\.so\.1'
    expect_absent none
    if command -v dpkg-query >/dev/null; then # one package that has all libraries, and whose licence names no common one
        xargs cp -L -t "poor/lib/$triplet" <<<"$libraries"
        mkdir -p poor/var/lib/dpkg/info poor/usr/share/doc/all
        printf 'Package: all\nStatus: install ok unpacked\nArchitecture: all\nMaintainer: nobody\nDescription: all\nVersion: 1\n' \
            >poor/var/lib/dpkg/status
        (cd poor && find lib -type f -printf '/%p\n') >poor/var/lib/dpkg/info/all.list
        echo 1 >poor/var/lib/dpkg/info/format
        echo 'Everything is allowed.' >poor/usr/share/doc/all/copyright
        expect_code 0 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" --root "$work/poor" "$work/none" "$build"
        expect_file none/licenses/all.txt none/licenses/packages.txt
        echo 'See /usr/share/common-licenses/Lost.' >poor/usr/share/doc/all/copyright # and one that names a text that is not there
        expect_code 0 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" --root "$work/poor" "$work/none" "$build"
        expect_text 'a licence names .*/common-licenses/Lost, which is not there'
    fi
    mkdir "poor/usr/lib/other-linux-gnu"
    touch poor/usr/lib/other-linux-gnu/libc.so
    expect_code 1 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" --root "$work/poor" "$work/none" "$build"
    expect_text 'more than one C library'
else
    note_skip "the C library is not where Debian has it: $libc"
fi
expect_code 1 "$CLTRAIN_SOURCE_DIR/scripts/bundle.sh" --root "$work/mine" "$work/none" "$build"
expect_text 'is not a folder of scripts/bundle_root.sh'
expect_file bundle/BUNDLE bundle/LICENSE bundle/configs/mlp-regression.json
if [ "$(du -sk bundle | cut -f1)" -le 65536 ]; then pass; else fail 'the bundle has more than 64 MiB'; fi
# shellcheck disable=SC2016 # the linker replaces these
expect_code 0 sh -c "readelf -d bundle/cltrain | grep -F '(RPATH)' | grep -F '[\$ORIGIN/lib:/\$LIB:/usr/\$LIB:\$ORIGIN/lib/last]'"
find bundle -type f -exec readelf -d {} + >dynamic 2>/dev/null
if grep -E 'R(UN)?PATH' dynamic | grep -q -F -e "$build" -e "$work"; then fail 'a library is looked for in a build folder'; else pass; fi

# Only a device's driver and the kernels that it has built are kept of this environment. PATH: PoCL calls a
# linker.
built=${POCL_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/pocl/kcache}
bare=(env -i PATH="$PATH" HOME="$work" OCL_ICD_VENDORS="$vendors" POCL_CACHE_DIR="$built"
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
expect_code 0 "${bare[@]}" LD_DEBUG=files LD_DEBUG_OUTPUT="$work/one" bundle/cltrain version
for library in $(cd bundle/lib && echo lib*.so*); do
    case $library in libOpenCL* | libclblast* | libcjson* | libjpeg* | libpng*) ;; *) continue ;; esac
    if grep -q "calling init: $work/bundle/lib/$library\$" one.*; then pass; else fail "the program did not load its own $library"; fi
done
if grep 'calling init: ' one.* | grep -q -E '/lib(OpenCL|clblast|cjson|jpeg|png16)\.so' &&
    ! grep 'calling init: ' one.* | grep -E '/lib(OpenCL|clblast|cjson|jpeg|png16)\.so' | grep -q -v -F "$work/bundle/"; then
    pass
else
    fail 'the program loaded libraries of the system that the bundle has'
fi
expect_code 0 "${bare[@]}" bundle/cltrain devices
expect_code 0 "${bare[@]}" bundle/cltrain train bundle/configs/mlp-regression.json --max-steps 3 --out run
expect_file run/metrics.jsonl
expect_code 4 "${bare[@]}" OCL_ICD_VENDORS=/nonexistent bundle/cltrain devices
if PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -q libpocl.so.2; then # a driver's library and no ICD file
    mkdir no_icd
    expect_code 0 "${bare[@]}" env -u OCL_ICD_VENDORS CLTRAIN_ICD_SYSTEM="$work/no_icd" bundle/cltrain doctor
    expect_text 'PoCL driver library .* is present' "cltrain made an entry for it" '^healthy'
else
    note_skip "PoCL's library is not on the linker's path"
fi

with_mpi=
if [ -x bundle/mpirun ]; then
    with_mpi=yes
    expect_code 0 "${bare[@]}" LD_DEBUG=files LD_DEBUG_OUTPUT="$work/two" bundle/mpirun --oversubscribe --bind-to none -np 2 \
        "$work/bundle/cltrain" train bundle/configs/mlp-regression.json --max-steps 3 --out run2
    expect_text '^rank +host +device'
    grep -h 'calling init: ' two.* | grep -E '/(libmpi|libopen-|libpmix|mca_|pmix_mca_)' >mpi_files
    expect_file mpi_files
    if grep -v -F "$work/bundle/" mpi_files >others; then
        fail "a rank loaded the system's MPI: $(head -n 3 others)"
    else
        pass
    fi
elif [ ! -e "$build/cltrain_comm_mpi.so" ]; then
    note_skip 'the MPI module was not built, the bundle has no mpirun'
elif command -v orterun >/dev/null; then
    fail 'the MPI module was built, and the bundle has no mpirun'
else
    note_skip 'only Open MPI 3 and 4 can be taken along: the bundle has no mpirun'
fi

# A root folder with the C library, a shell, the bundle, and what every machine has.
mkdir -p root/bin root/tmp root/proc root/dev root/etc
for file in $(ldd bundle/cltrain | grep -o '/[^ ]*/\(libc\|libm\|ld-linux[^ /]*\)\.so\.[0-9]*') \
    $(ldconfig -p 2>/dev/null | grep -E 'lib(dl|pthread|rt|util|resolv)\.so\.[0-9]+ .*x86-64' | grep -o '/[^ ]*$'); do
    mkdir -p "root/$(dirname "$file")" && cp -L "$file" "root/$file"
done
cp -L "$(command -v dash || echo /bin/sh)" root/bin/sh
cp -a bundle root/
namespace=(unshare --mount --pid --fork)
[ "$(id -u)" -eq 0 ] || namespace+=(--map-root-user)
cat >in_root <<'TEXT'
mount -t proc proc root/proc && mount --bind /dev root/dev || exit 99
PATH=$PATH:/usr/sbin:/sbin
exec env -i OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$(command -v chroot)" root "$@"
TEXT
in_root=("${namespace[@]}" sh ./in_root)
if "${in_root[@]}" /bin/sh -c 'exit 0' >"$out" 2>&1; then
    expect_code 0 "${in_root[@]}" /bundle/cltrain version
    expect_code 4 "${in_root[@]}" /bundle/cltrain doctor
    expect_text 'the OpenCL loader is /bundle/lib/libOpenCL\.so\.1'
    if [ -n "$with_mpi" ]; then
        expect_code 4 "${in_root[@]}" /bundle/mpirun --oversubscribe --bind-to none -np 2 \
            /bundle/cltrain train /bundle/configs/mlp-regression.json
        expect_text '\[rank [01] .*no OpenCL driver'
    fi
else
    note_skip "no other root folder is possible here: $(tail -n 1 "$out")"
fi
finish
