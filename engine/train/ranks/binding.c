/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the cores near a rank's GPU, and binds the threads of the process to them. */
#include "engine/train/ranks/binding.h"

#include "engine/base/log.h"
#include "engine/config/choices.h"

static bool is_wanted(const clt_run *run)
{
    switch ((clt_bind)clt_config_choice(run->options->config, "parallel.bind")) {
    case CLT_BIND_AUTO:
        return run->ranks.local_ranks > 1;
    case CLT_BIND_ALWAYS:
        return true;
    case CLT_BIND_NEVER:
        break;
    }
    return false;
}

void clt_find_near_cores(const clt_run *run, clt_nearness *near)
{
    const ocl_device_desc *d = ocl_device_describe(run->device);
    clt_cores own, there;
    *near = (clt_nearness){.node = -1};
    if (!d->is_gpu || clt_numa_nodes() < 2 || !clt_cores_of_process(&own) ||
        !clt_cores_near(d->pci, &there, &near->node))
        return;
    clt_cores_common(&own, &there, &near->cores);
    int count = clt_cores_count(&near->cores);
    near->far = count == 0;
    near->near = count > 0 && count == clt_cores_count(&own);
    near->bind = count > 0 && !near->near && is_wanted(run);
}

void clt_bind_near_device(clt_run *run, const clt_nearness *near, int sharing)
{
    char text[256];
    if (near->near && near->node >= 0 && is_wanted(run) && sharing < run->ranks.core_ranks)
        run->ranks.core_ranks = sharing;
    if (!near->bind)
        return;
    clt_cores_print(&near->cores, text, sizeof text);
    if (clt_cores_bind(&near->cores) != CLT_OK) {
        CLT_WARN(
            "%s; threads of rank %d stay on all cores that it may use instead of %s, which are near its GPU",
            clt_error_text(), run->ranks.rank, text);
        clt_error_clear();
        return;
    }
    if (near->node >= 0)
        run->ranks.core_ranks = sharing;
    CLT_DEBUG("rank %d is bound to cores %s, near %s (NUMA node %d)", run->ranks.rank, text,
              ocl_device_describe(run->device)->pci, near->node);
}
