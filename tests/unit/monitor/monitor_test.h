/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of monitoring share: a sample, and made-up files of the kernel. */
#ifndef TESTS_UNIT_MONITOR_MONITOR_TEST_H
#define TESTS_UNIT_MONITOR_MONITOR_TEST_H

#include "tests/unit/test.h"

#include <math.h>
#include <sys/stat.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/monitor/monitor_source.h"

#define PCI "0000:65:00.0"

static clt_monitor_sample sample;
static clt_monitor_facts facts;

static inline void near_to(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.17g instead of %.17g", value, expected);
}

/* A driver's device at `pci`, as the kernel shows it. */
static inline void put_device(const char *pci, const char *driver)
{
    char path[256], target[64];
    (void)snprintf(path, sizeof path, "bus/pci/devices/%s/vendor", pci);
    put_text(path, "0x0000\n");
    (void)snprintf(path, sizeof path, "bus/pci/devices/%s/driver", pci);
    (void)snprintf(target, sizeof target, "../../drivers/%s", driver);
    assert_int_equal(symlink(target, in_dir(path)), 0);
}

static inline int lay_out_environment(void)
{
    setenv("CLTRAIN_SYSFS", test_folder(), 1);
    setenv("CLTRAIN_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    return 0;
}

#endif
