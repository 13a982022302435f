/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain devices: every OpenCL device, opened and probed. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/args.h"
#include "cli/console.h"
#include "engine/base/json.h"

static void write_quirks(clt_json_writer *w, uint32_t quirks)
{
    clt_jw_key(w, "quirks");
    clt_jw_array(w);
    for (uint32_t bit = 1; bit; bit <<= 1)
        if (quirks & bit)
            clt_jw_string(w, ocl_quirk_name(bit));
    clt_jw_end_array(w);
}

static void write_caps(clt_json_writer *w, uint32_t caps)
{
    clt_jw_key(w, "caps");
    clt_jw_array(w);
    for (int i = 0; i < OCL_CAP_COUNT; i++)
        if (caps >> i & 1u)
            clt_jw_string(w, ocl_cap_name(i));
    clt_jw_end_array(w);
}

/* error NULL: the device was opened and caps are known. */
static void write_device(clt_json_writer *w, const ocl_device_desc *d, const char *error)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "spec", d->spec);
    clt_jw_kstring(w, "name", d->name);
    clt_jw_kstring(w, "kind", d->is_gpu ? "gpu" : d->is_cpu ? "cpu" : "other");
    clt_jw_kstring(w, "vendor", d->vendor);
    clt_jw_kstring(w, "driver", d->driver);
    clt_jw_kstring(w, "version", d->version);
    clt_jw_kstring(w, "platform", d->platform);
    clt_jw_kint(w, "compute_units", d->compute_units);
    clt_jw_kint(w, "max_clock_mhz", d->max_clock_mhz);
    clt_jw_kint(w, "max_work_group", (int64_t)d->max_work_group);
    clt_jw_kint(w, "kernel_group_limit", (int64_t)d->kernel_group_limit);
    clt_jw_kint(w, "local_bytes", (int64_t)d->local_bytes);
    clt_jw_kint(w, "global_bytes", (int64_t)d->global_bytes);
    clt_jw_kint(w, "usable_bytes", (int64_t)d->usable_bytes);
    clt_jw_kint(w, "max_alloc_bytes", (int64_t)d->max_alloc_bytes);
    clt_jw_kint(w, "align_bytes", d->align_bytes);
    if (d->compute_capability)
        clt_jw_kint(w, "compute_capability", d->compute_capability);
    clt_jw_kbool(w, "usable", !error);
    if (error)
        clt_jw_kstring(w, "error", error);
    else
        write_caps(w, d->caps);
    write_quirks(w, d->quirks);
    clt_jw_end_object(w);
}

static void print_device(const ocl_device_desc *d, const char *error)
{
    char memory[32], caps[256];
    printf("%-5s %-5s %s | %s | driver %s | %s | %u units | %s | ", d->spec,
           d->is_gpu   ? "gpu"
           : d->is_cpu ? "cpu"
                       : "other",
           d->name, d->vendor, d->driver, d->version, d->compute_units,
           console_bytes(d->usable_bytes, memory, sizeof memory));
    if (error)
        printf("NOT USABLE: %s\n", error);
    else
        printf("caps %s\n", ocl_caps_text(d->caps, caps, sizeof caps));
}

clt_status cmd_devices(cmd_context *context, int argc, char **argv)
{
    bool json = false;
    const args_option options[] = {ARGS_JSON(json), ARGS_END};
    const args_usage usage = {
        .command = "devices",
        .operands = "",
        .summary = "Lists every OpenCL device; capabilities are found by building and running probe kernels.",
        .options = options};
    args_result r;
    ocl_device_desc *list = NULL;
    int count = 0, usable = 0;
    clt_str text = {0};
    (void)context;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    CLT_TRY(ocl_list_devices(&list, &count));
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_array(&w);
    for (int i = 0; i < count; i++) {
        ocl_device_desc opened = list[i];
        bool good = cmd_describe_device(list[i].spec, OCL_CAPS_ALL, &opened) == CLT_OK;
        usable += good;
        if (json)
            write_device(&w, &opened, good ? NULL : clt_error_text());
        else
            print_device(&opened, good ? NULL : clt_error_text());
    }
    clt_jw_end_array(&w);
    clt_str_append(&text, "\n");
    clt_status status = clt_str_check(&text);
    if (status == CLT_OK && json)
        status = cmd_write_text("-", text.text);
    clt_str_free(&text);
    free(list);
    if (status == CLT_OK && usable == 0)
        CLT_FAIL(CLT_EDEVICE, "none of %d devices can be used; run 'cltrain doctor'", count);
    return status;
}
