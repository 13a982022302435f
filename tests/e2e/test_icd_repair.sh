#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 15 ctest-optimise: no
#
# Drivers that no ICD file names: cltrain finds the library and makes an entry in a private folder, so that every command works
# without setting a variable. Variables of the user are respected, a driver is never listed twice, and nothing is written where
# others could have written. CLTRAIN_ICD_SYSTEM replaces the system's folder, and where a mount namespace is allowed the real one is
# emptied.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

unset OCL_ICD_VENDORS OCL_ICD_FILENAMES OPENCL_VENDOR_PATH CLTRAIN_ICD_MADE CLTRAIN_ICD_REPAIR RUSTICL_ENABLE
export CLTRAIN_CACHE_DIR=$work/cache

"$CLTRAIN" doctor >doctor.txt 2>&1
ldconfig=$(PATH=$PATH:/sbin:/usr/sbin command -v ldconfig) || skip_all 'ldconfig is not installed'
pocl=$("$ldconfig" -p | sed -n 's/.*libpocl\.so\.2 .*=> //p' | head -n 1)
[ -n "$pocl" ] || skip_all "PoCL's library is not on the linker's path"
grep -q '^ok .*Portable Computing Language' doctor.txt || skip_all 'PoCL offers no device here'
pocl_devices() { "$CLTRAIN" devices 2>/dev/null | grep -c PoCL; }

# The machine as it is: drivers that the system names need no entry, and no folder is made.
if grep -q 'cltrain made an entry' doctor.txt; then
    note_skip "this system's own ICD files are incomplete"
else
    expect_absent cache/icd
fi

# An empty system folder: the driver is found, reported, and used by every command.
mkdir empty
export CLTRAIN_ICD_SYSTEM=$work/empty
expect_code 0 "$CLTRAIN" doctor
expect_text "^note .* $work/empty \(the default\) holds no .icd file" \
    "PoCL driver library $pocl is present, but no ICD file names it.*cltrain made an entry for it" \
    "mkdir -p $work/empty && echo $pocl >$work/empty/pocl.icd" \
    "^ok .*cltrain's own entry names the driver library $pocl, and it loads" \
    "cltrain set [A-Z_]*=$work/cache/icd/[0-9a-f]* for this process" '^healthy'
expect_code 0 "$CLTRAIN" devices
expect_text PoCL
expect_code 0 "$CLTRAIN" train "$CLTRAIN_SOURCE_DIR/configs/mlp-regression.json" --max-steps 3 --out run
expect_code 0 "$CLTRAIN" version
[ "$(find cache/icd -mindepth 1 -maxdepth 1 | wc -l)" -eq 1 ] && pass || fail "not one folder of entries: $(ls cache/icd)"
folder=$(find "$work/cache/icd" -mindepth 1 -maxdepth 1)
[ "$(stat -c %a "$folder" cache/icd | sort -u)" = 700 ] && pass || fail 'others may look into the folder of entries'
expect_absent run/icd empty/pocl.icd

# Child processes of cltrain use what it chose; with the user's own variable or the switch nothing is changed.
expect_code 0 env OCL_ICD_VENDORS="$folder" CLTRAIN_ICD_MADE="$folder" "$CLTRAIN" doctor
expect_text 'zz-cltrain-pocl.icd names the driver library'
rm -rf cache
expect_code 4 env OCL_ICD_VENDORS="$work/empty" "$CLTRAIN" devices
expect_code 4 env OPENCL_VENDOR_PATH="$work/empty" OCL_ICD_VENDORS="$work/empty" "$CLTRAIN" devices
expect_code 4 env OCL_ICD_VENDORS=/nonexistent "$CLTRAIN" devices
expect_absent cache/icd
expect_code 0 env CLTRAIN_ICD_REPAIR=off "$CLTRAIN" version
expect_absent cache/icd

# A variable that the user has set to an empty text names nothing.
OCL_ICD_VENDORS='' expect_code 0 "$CLTRAIN" devices

# Many processes at the same time: each finds a complete folder, and one folder is left.
rm -rf cache
for i in 1 2 3 4 5 6 7 8; do ("$CLTRAIN" devices >"many.$i" 2>&1 || echo failed >"many.$i.bad") & done
wait
if ls many.*.bad >/dev/null 2>&1; then fail "a process that started beside others failed: $(cat many.*)"; else pass; fi
[ "$(find cache/icd -mindepth 1 -maxdepth 1 | wc -l)" -eq 1 ] && pass || fail "folders were left behind: $(ls cache/icd)"

# A damaged folder is replaced.
for file in cache/icd/*/zz-cltrain-pocl.icd; do : >"$file"; done
expect_code 0 "$CLTRAIN" devices
expect_text PoCL

# No cache, or one that others may write to: a temporary folder, which is removed at the end.
mkdir tmp
for case in open file none; do
    rm -rf cache
    case $case in
    open) mkdir -p cache/icd && chmod 777 cache/icd ;;
    file) : >cache ;;
    esac
    where=(CLTRAIN_CACHE_DIR="$work/cache")
    [ $case != none ] || where=(-u CLTRAIN_CACHE_DIR -u XDG_CACHE_HOME -u HOME)
    expect_code 0 env "${where[@]}" TMPDIR="$work/tmp" "$CLTRAIN" doctor
    expect_text "cltrain set [A-Z_]*=$work/tmp/cltrain-icd-" '^healthy'
    expect_absent tmp/cltrain-icd-*
done
rm -rf cache

# Entries of the system: under the library's name, under its path, under another name for the same file,
# with a line end of another system, and for a library that is gone.
ln -s "$pocl" alias.so
for entry in 'libpocl.so.2\n' "$pocl\n" 'libpocl.so.2\r\n' 'libpocl.so.2\r' '\xEF\xBB\xBFlibpocl.so.2\n' '/nowhere/libpocl.so.2.9\n'; do
    rm -rf system && mkdir system
    # shellcheck disable=SC2059 # the entry is a format
    printf "$entry" >system/mine.icd
    export CLTRAIN_ICD_SYSTEM=$work/system
    expect_code 0 "$CLTRAIN" devices
    [ "$(pocl_devices)" -eq 1 ] && pass || fail "'$entry': $(pocl_devices) devices of PoCL"
done
expect_code 0 "$CLTRAIN" doctor
expect_text "ICD file $work/system/mine.icd names a library that is not where it says; the PoCL driver library is $pocl, and cltrain made"
reject_text '^ERROR'
echo "$work/alias.so" >system/mine.icd # PoCL does not find its own files from there, but the entry leads to it
"$CLTRAIN" doctor >"$out" 2>&1
expect_text "$work/alias.so"
reject_text 'the PoCL driver library .* is present'
export CLTRAIN_ICD_SYSTEM=$work/empty

# The user's own folder or file, with a line end of another system: the loader gets a copy, and no other
# driver.
mkdir users
printf 'libpocl.so.2\r\n' >users/mine.icd
for chosen in OCL_ICD_VENDORS="$work/users" OCL_ICD_VENDORS="$work/users/mine.icd" OPENCL_VENDOR_PATH="$work/users"; do
    expect_code 0 env "$chosen" "$CLTRAIN" devices
    [ "$(grep -c PoCL "$out")" -eq 1 ] && pass || fail "$chosen: not one device of PoCL"
done
expect_code 0 env OCL_ICD_VENDORS="$work/users" "$CLTRAIN" doctor
expect_text "OCL_ICD_VENDORS=$work/users replaces" "^ok .*$work/users/mine.icd names the driver library libpocl.so.2, and it loads" \
    "^note .*1 ICD file.s. of $work/users contain more than the library's name.* copies in $work/cache/icd/" '^healthy'
reject_text 'cltrain made an entry'

# NVIDIA's library as containers have it. This one is not a driver, so the others work beside it. A text
# file of that name is not a library.
zlib=$("$ldconfig" -p | sed -n 's/.*libz\.so\.1 .*x86-64.*=> //p' | head -n 1)
mkdir nvidia text
echo 'no library' >text/libnvidia-opencl.so.1
expect_code 0 env LD_LIBRARY_PATH="$work/text" "$CLTRAIN" doctor
reject_text "NVIDIA driver library $work"
if [ -n "$zlib" ]; then
    cp -L "$zlib" nvidia/libnvidia-opencl.so.1
    expect_code 0 env LD_LIBRARY_PATH="$work/text:$work/nvidia" "$CLTRAIN" doctor
    expect_text "the NVIDIA driver library $work/nvidia/libnvidia-opencl.so.1 is present, but no ICD file names it" '^healthy'
    expect_code 0 env LD_LIBRARY_PATH="$work/nvidia" "$CLTRAIN" devices
    expect_text PoCL
    mkdir -p prefix/lib && cp nvidia/libnvidia-opencl.so.1 prefix/lib/
    expect_code 0 env CONDA_PREFIX="$work/prefix" "$CLTRAIN" doctor
    expect_text "the NVIDIA driver library $work/prefix/lib/libnvidia-opencl.so.1 is present"
else
    note_skip 'there is no library to simulate a driver'
fi

# Loaders that read other variables: this one with the names in its file changed. Doctor's advice follows.
loader=$(sed -n 's/^note .*the OpenCL loader is \([^;]*\);.*/\1/p' doctor.txt)
if grep -q 'OPENCL_VENDOR_PATH' doctor.txt && ! ldd "$CLTRAIN" | grep -q asan; then
    mkdir folders none
    sed 's/OPENCL_VENDOR_PATH/OTHERS_VENDOR_PATH/g' "$loader" >folders/libOpenCL.so.1
    sed 's/OPENCL_VENDOR_PATH/OTHERS_VENDOR_PATH/g; s/OCL_ICD_VENDORS/OTHERSX_VENDORS/g' "$loader" >none/libOpenCL.so.1
    expect_code 0 env LD_LIBRARY_PATH="$work/folders" "$CLTRAIN" doctor
    expect_text "loader is $work/folders/libOpenCL.so.1; it takes drivers from OCL_ICD_VENDORS \(a folder\), or else" '^healthy'
    LD_LIBRARY_PATH=$work/folders OCL_ICD_VENDORS=libpocl.so.2 guarded "$CLTRAIN" doctor >"$out" 2>&1
    expect_text 'OCL_ICD_VENDORS=libpocl.so.2 names no folder, and this OpenCL loader takes nothing else there' \
        'the library with OCL_ICD_FILENAMES=libpocl.so.2'
    LD_LIBRARY_PATH=$work/none guarded "$CLTRAIN" doctor >"$out" 2>&1
    expect_text 'and no variable$' 'ERROR .*the PoCL driver library .* is present' 'as root: mkdir -p' \
        'this OpenCL loader reads no variable'
    expect_code 0 env OCL_ICD_FILENAMES=libpocl.so.2 CLTRAIN_ICD_SYSTEM= "$CLTRAIN" doctor
    expect_text 'OCL_ICD_FILENAMES=libpocl.so.2 has no effect: this OpenCL loader does not read it' \
        'name the library with OCL_ICD_VENDORS=LIBRARY'
else
    note_skip 'the loader of this build cannot be simulated by a changed copy'
fi

# The real folder, emptied, in a mount namespace of its own.
unset CLTRAIN_ICD_SYSTEM
namespace=(unshare --mount)
[ "$(id -u)" -eq 0 ] || namespace+=(--map-root-user)
if [ -d /etc/OpenCL/vendors ] && "${namespace[@]}" mount -t tmpfs none /etc/OpenCL/vendors 2>/dev/null; then
    # shellcheck disable=SC2016 # $1 is the inner shell's
    expect_code 0 "${namespace[@]}" sh -c 'mount -t tmpfs none /etc/OpenCL/vendors && "$1" doctor && "$1" devices' sh "$CLTRAIN"
    expect_text '^note .* /etc/OpenCL/vendors \(the default\) holds no .icd file' 'cltrain made an entry for it' '^healthy' 'PoCL'
else
    note_skip 'no mount namespace is allowed here: the real folder was not emptied, only the simulated one'
fi
finish
