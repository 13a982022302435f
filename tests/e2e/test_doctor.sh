#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# The doctor names the file or library at fault: no ICD file, a missing library, an ICD file that cannot be read or is empty, a
# library that is no driver, no platform. And it reports no fault on a machine without one.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# sick PATTERN...: the environment has the fault; doctor ends with 4 and its output matches the patterns.
sick() {
    expect_code 4 "$CLTRAIN" doctor
    expect_text "$@" 'no device can be used'
    reject_text '^healthy'
}

expect_code 0 "$CLTRAIN" doctor
expect_text '^ok .*names the driver library .*, and it loads' '^ok .*device 0:0 .* runs kernels; capabilities:' '^healthy'
# Whether a driver offers a device without settings. Mesa's, for instance, can be loaded and have no device.
library=
mkdir one
while read -r candidate; do
    echo "$candidate" >one/one.icd
    [ -n "$library" ] || ! OCL_ICD_VENDORS=$work/one "$CLTRAIN" devices >/dev/null 2>&1 || library=$candidate
done < <(sed -n 's/^ok .*names the driver library \(.*\), and it loads/\1/p' "$out")
# A provider that the environment names but that cannot be reached does not "answer".
CLTRAIN_CLOUD_PROVIDER=hetzner expect_code 0 "$CLTRAIN" doctor
expect_text "^warn .*trainings will not get a notice .*'hetzner' is not a provider of notices"
reject_text 'it answers'
for provider in file url; do
    CLTRAIN_CLOUD_PROVIDER=$provider expect_code 0 "$CLTRAIN" doctor
    expect_text "^warn .*the provider '$provider' needs cloud.notice_$provider"
    reject_text 'it answers'
done
CLTRAIN_CLOUD_PROVIDER=off expect_code 0 "$CLTRAIN" doctor
reject_text 'metadata service' 'it answers'
expect_code 2 "$CLTRAIN" doctor extra
expect_text "unexpected argument 'extra'"

mkdir icd
export OCL_ICD_VENDORS=$work/icd
# The advice is to install a driver only where the system has none.
mkdir nothing
CLTRAIN_ICD_SYSTEM=$work/nothing sick "ERROR .*$work/icd \(from OCL_ICD_VENDORS\) holds no .icd file: no driver is installed" \
    'install a driver' 'found no OpenCL platform'
reject_text unset
export CLTRAIN_ICD_SYSTEM=$work/one
sick "ERROR .*$work/icd \(from OCL_ICD_VENDORS\) holds no .icd file\$" \
    "-> unset OCL_ICD_VENDORS: $work/one/one.icd names a driver that is installed" 'found no OpenCL platform'
reject_text 'install a driver' 'no driver is installed'
expect_code 4 "$CLTRAIN" devices
expect_text "OCL_ICD_VENDORS=$work/icd leads to no driver; unset it: $work/one/one.icd names one"
unset CLTRAIN_ICD_SYSTEM

echo /nowhere/libmissing_driver.so.1 >icd/missing.icd
sick "ERROR .*$work/icd/missing.icd names the driver library /nowhere/libmissing_driver.so.1, which does not load" \
    'cannot open shared object file' "remove or correct $work/icd/missing.icd" 'found no OpenCL platform'
expect_code 4 "$CLTRAIN" devices
expect_text "cltrain doctor"

: >icd/missing.icd
sick "ERROR .*the ICD file $work/icd/missing.icd is empty" 'must name a driver library'

echo libz.so.1 >icd/missing.icd # loads, but is not a driver
sick 'a driver library loads but offers no platform'
rm icd/missing.icd

mkdir icd/folder.icd # a file that nobody can read, root included
sick "ERROR .*the ICD file $work/icd/folder.icd cannot be read: Is a directory" 'may read' 'remove it'
rmdir icd/folder.icd
if [ "$(id -u)" -ne 0 ]; then
    echo "$library" >icd/closed.icd && chmod 000 icd/closed.icd
    sick "the ICD file $work/icd/closed.icd cannot be read: Permission denied" "sudo chmod 644 $work/icd/closed.icd"
    rm -f icd/closed.icd
else
    note_skip 'root may read everything, so an ICD file without read permission is not tried'
fi

# One broken file beside a working driver: the machine is healthy, and the broken file is reported.
if [ -n "$library" ]; then
    echo "$library" >icd/good.icd
    echo /nowhere/libmissing_driver.so.1 >icd/missing.icd
    expect_code 0 "$CLTRAIN" doctor
    expect_text "ERROR .*$work/icd/missing.icd" "^ok .*$work/icd/good.icd names the driver library" '^healthy'
else
    fail 'the healthy report names no driver library'
fi

export OCL_ICD_VENDORS=$work/absent.icd
sick "the ICD file $work/absent.icd cannot be read: No such file"
export OCL_ICD_VENDORS=$work/nowhere/
sick "the folder $work/nowhere/, which does not exist" 'correct or unset OCL_ICD_VENDORS'
export OCL_ICD_VENDORS=/nonexistent
sick 'OCL_ICD_VENDORS names the driver library /nonexistent, which does not load'
unset OCL_ICD_VENDORS

# A platform without devices: PoCL is configured to have none.
if "$CLTRAIN" devices | grep -q PoCL; then
    export POCL_DEVICES=nonsense
    expect_code 4 "$CLTRAIN" doctor
    expect_text 'POCL_DEVICES|no OpenCL platform'
    unset POCL_DEVICES
else
    note_skip 'a platform without devices can only be simulated by PoCL'
fi
finish
