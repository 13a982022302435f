#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 10 ctest-optimise: no
#
# A driver that ends or blocks every process that loads it (fault/bad_driver.c) is reported and not used; the others work:
# `devices`, `doctor`, a training. The result is cached if a driver hung, and repeated on request.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tests=$CLTRAIN_BUILD_DIR/tests
[ -e "$tests/driver_abort.so" ] || skip_all "there is no $tests/driver_abort.so"
"$CLTRAIN" devices --json 2>/dev/null >all.json || skip_all 'there is no device'
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES OPENCL_VENDOR_PATH
own_cache "$work/cache"

# The system's drivers, with a bad one before and after them.
mkdir icd
cp -L /etc/OpenCL/vendors/*.icd icd/ 2>/dev/null
[ -n "$(ls icd)" ] || skip_all 'this system has no ICD files'
export CLTRAIN_ICD_SYSTEM=$work/icd
expect_code 0 "$CLTRAIN" devices # what the devices can do is known from here on, so that below drivers are only listed
seconds=$((10 * ${CLTRAIN_TEST_PATIENCE:-1})) # fifty times what that takes
echo "$tests/driver_abort.so" >icd/0-abort.icd
echo "$tests/driver_hang.so" >icd/zz-hang.icd
expect_code 0 env CLTRAIN_PROBE_SECONDS="$seconds" "$CLTRAIN" devices
expect_text "^warning: the OpenCL driver $tests/driver_abort.so \(0-abort.icd\) is not used, .*SIGABRT: bad_driver: cannot find" \
    "^warning: the OpenCL driver $tests/driver_hang.so \(zz-hang.icd\) is not used, .*did not answer in $seconds s" '^[0-9]+:[0-9]+ .* caps '
export CLTRAIN_PROBE_SECONDS=1000000 # a second hang would not end
expect_code 0 "$CLTRAIN" devices
expect_text 'driver_abort.so .*is not used' 'driver_hang.so .*is not used' '^[0-9]+:[0-9]+ .* caps '
expect_code 0 "$CLTRAIN" doctor
expect_text '^ERROR .*driver_abort.so \(0-abort.icd\) is not used' '^healthy'
expect_code 0 "$CLTRAIN" verify -t known.philox
expect_text 'is not used' '^1 passed, 0 failed'
for file in "$CLTRAIN_CACHE_DIR"/listing/*.json; do
    sed -i 's/0-abort/1-abort/' "$file"
done
expect_code 0 env CLTRAIN_PROBE_SECONDS="$seconds" "$CLTRAIN" devices # damaged: not believed
expect_text 'driver_abort.so \(0-abort.icd\) is not used'
rm icd/zz-hang.icd # another set of drivers is asked again
rm "$CLTRAIN_CACHE_DIR"/listing/*.json
expect_code 0 "$CLTRAIN" devices
expect_text 'driver_abort.so .*is not used.*; the next start tries it again'
reject_text 'driver_hang'
# A crash may have its cause in this environment alone, and repeating it costs no time: its result is not
# kept.
if grep -q '"entry"' "$CLTRAIN_CACHE_DIR"/listing/*.json; then fail 'a driver that crashes is kept as one'; else pass; fi
expect_code 0 "$CLTRAIN" devices --again
expect_text 'driver_abort.so .*is not used'

# If the fault is not in a driver but in a library that is loaded before all of them, no driver is blamed.
expect_code 4 env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD="$tests/driver_listing.so" "$CLTRAIN" devices
expect_text "crashes or hangs even without any driver's ICD file: .*SIGABRT: bad_driver: a layer between" 'LD_PRELOAD'
reject_text 'is not used'

# Only a bad driver.
rm icd/*.icd
echo "$tests/driver_abort.so" >icd/0-abort.icd
export OCL_ICD_VENDORS=$work/icd # or a driver without an entry would be found
expect_code 4 "$CLTRAIN" devices
expect_text 'driver_abort.so \(0-abort.icd\) is not used'
expect_code 4 "$CLTRAIN" doctor
expect_text '^ERROR .*driver_abort.so' 'no device can be used'
finish
