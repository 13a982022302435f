/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain plan CONFIG and cltrain estimate CONFIG: what would run, and how much memory it needs. Needs no
 * device. */
#include "cli/args.h"
#include "cli/cmd.h"
#include "engine/train/trainer.h"

typedef clt_status (*describe_function)(const clt_config *config, const ocl_device_desc *desc, bool json,
                                        clt_str *out);

static clt_status describe(int argc, char **argv, const char *command, const char *summary,
                           describe_function function)
{
    const char *device = NULL, *caps_text = NULL;
    bool json = false;
    const args_option options[] = {
        ARGS_JSON(json),
        ARGS_TEXT("--device", "SPEC", device,
                  "plan for this device (default: a device like most, none is opened)"),
        ARGS_CAPS(caps_text), ARGS_END};
    const args_usage usage = {.command = command,
                              .operands = "CONFIG [section.key=value ...]",
                              .summary = summary,
                              .options = options,
                              .min_operands = 1,
                              .max_operands = 1,
                              .overrides = true};
    args_result r;
    clt_config *config = NULL;
    ocl_device_desc desc;
    clt_str text = {0};
    uint32_t caps;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    CLT_TRY(cmd_caps(caps_text, &caps));
    CLT_TRY(cmd_load_config(&r, &config));
    clt_status status = CLT_OK;
    if (device)
        status = cmd_describe_device(device, caps, &desc);
    else
        ocl_desc_generic(&desc);
    desc.caps &= caps;
    if (status == CLT_OK)
        status = function(config, &desc, json, &text);
    if (status == CLT_OK)
        status = clt_str_check(&text);
    if (status == CLT_OK && text.length > 0)
        status = cmd_write_text("-", text.text);
    clt_str_free(&text);
    clt_config_destroy(config);
    return status;
}

clt_status cmd_plan(cmd_context *context, int argc, char **argv)
{
    (void)context;
    return describe(argc, argv, "plan", "Shows the memory map and the commands of a config.",
                    clt_describe_plan);
}

clt_status cmd_estimate(cmd_context *context, int argc, char **argv)
{
    (void)context;
    return describe(argc, argv, "estimate", "Shows memory by class and the largest micro-batch that fits.",
                    clt_describe_estimate);
}
