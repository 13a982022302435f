/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes one training of verify --trajectory, and reports each step to the parent process. */
#include "cli/verify/trajectory_worker.h"

#include <inttypes.h>

#include "cli/verify/trajectory_models.h"
#include "engine/host/child.h"
#include "engine/train/loop/trainer.h"
#include "engine/verify/verify.h"

static void tell_step(void *context, const clt_step_metrics *m)
{
    (void)context;
    if (clt_child_say("step %" PRId64 " %a %a", m->step, m->loss, m->grad_norm) != CLT_OK)
        clt_error_clear(); /* the parent is gone, and this process ends with it */
}

static clt_status train(const char *name, const char *folder, const char *device, uint32_t caps_mask)
{
    ocl_device_desc desc;
    clt_run_result result = {0};
    CLT_SCOPED(clt_config) *config = NULL;
    int number = trajectory_find(name);
    if (number < 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain verify-worker: no training is named '%s'", name);
    CLT_TRY(cmd_describe_device(device, caps_mask, &desc));
    CLT_TRY(clt_verify_say_device(&desc));
    CLT_TRY(trajectory_config(number, folder, &config));
    const clt_run_options options = {.config = config,
                                     .init_skip = "",
                                     .device_spec = device,
                                     .caps_mask = caps_mask,
                                     .observer = {.step = tell_step}};
    return clt_train(&options, &result);
}

clt_status trajectory_work(const char *name, const char *folder, const char *device, uint32_t caps_mask)
{
    clt_error error;
    CLT_TRY(clt_child_begin());
    clt_status status = train(name, folder, device, caps_mask);
    if (status == CLT_OK)
        return clt_child_say("done");
    clt_error_take(status, &error);
    return clt_child_say("error %d %s", (int)status, error.text);
}
