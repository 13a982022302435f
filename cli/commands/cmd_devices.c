/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain devices: lists every OpenCL device with its capabilities, and the reason for each capability that
 * it should have but lacks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/device/listing.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/json/json.h"

static void write_quirks(clt_json_writer *w, uint32_t quirks)
{
    clt_jw_karray(w, "quirks");
    for (uint32_t bit = 1; bit; bit <<= 1)
        if (quirks & bit)
            clt_jw_string(w, ocl_quirk_name(bit));
    clt_jw_end_array(w);
}

static void write_caps(clt_json_writer *w, uint32_t caps)
{
    clt_jw_karray(w, "caps");
    for (int i = 0; i < OCL_CAP_COUNT; i++)
        if (caps >> i & 1u)
            clt_jw_string(w, ocl_cap_name(i));
    clt_jw_end_array(w);
}

/* A device, with the results of opening and probing it. */
typedef struct device_view {
    ocl_device_desc desc;
    bool usable;
    char error[1024]; /* why it could not be opened */
    ocl_cap_report report[OCL_CAP_COUNT];
} device_view;

/* Writes each capability with the result of its probe on the device. */
static void write_capabilities(clt_json_writer *w, const device_view *view)
{
    clt_jw_karray(w, "answers");
    for (int i = 0; i < OCL_CAP_COUNT; i++) {
        clt_jw_object(w);
        clt_jw_kstring(w, "capability", ocl_cap_name(i));
        clt_jw_kstring(w, "state", ocl_answer_name(view->report[i].answer));
        clt_jw_kbool(w, "lost", ocl_answer_is_loss(view->report[i].answer));
        if (view->report[i].reason[0])
            clt_jw_kstring(w, "reason", view->report[i].reason);
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
}

static void write_device(clt_json_writer *w, const device_view *view)
{
    const ocl_device_desc *d = &view->desc;
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
    clt_jw_kint(w, "local_proven_bytes", (int64_t)d->local_proven_bytes);
    clt_jw_kint(w, "local_retargeted_bytes", (int64_t)d->local_retargeted_bytes);
    clt_jw_kint(w, "local_argument_bytes", (int64_t)d->local_argument_bytes);
    clt_jw_kbool(w, "usable", view->usable);
    if (!view->usable)
        clt_jw_kstring(w, "error", view->error);
    else
        write_caps(w, d->caps);
    if (view->usable)
        write_capabilities(w, view);
    write_quirks(w, d->quirks);
    clt_jw_end_object(w);
}

/* Appends the names of capabilities, separated by commas. On a screen a blank follows each comma, so that
 * the line can be wrapped there. */
static void append_caps(clt_str *out, uint32_t caps, int screen)
{
    char text[256];
    ocl_caps_text(caps, text, sizeof text);
    for (const char *c = text; *c; c++)
        clt_str_printf(out, screen > 0 && *c == ',' ? "%c " : "%c", *c);
}

static void print_device(const device_view *view)
{
    const ocl_device_desc *d = &view->desc;
    char memory[32];
    int screen = terminal_columns();
    CLT_SCOPED(clt_str) line = {0}, lines = {0};
    clt_str_printf(&line, "%-5s %-5s %s | %s | driver %s | %s | %u unit%s | %s | ", d->spec,
                   d->is_gpu   ? "gpu"
                   : d->is_cpu ? "cpu"
                               : "other",
                   d->name, d->vendor, d->driver, d->version, d->compute_units, CLT_PLURAL(d->compute_units),
                   console_bytes(d->usable_bytes, memory, sizeof memory));
    if (view->usable) {
        clt_str_append(&line, "caps ");
        append_caps(&line, d->caps, screen);
    } else {
        clt_str_printf(&line, "NOT USABLE: %s", view->error);
    }
    if (clt_str_check(&line) == CLT_OK)
        text_wrap(line.text, 0, 12, screen, &lines);
    for (int i = 0; view->usable && i < OCL_CAP_COUNT; i++)
        if (ocl_answer_is_loss(view->report[i].answer)) {
            line.length = 0;
            clt_str_printf(&line, "      goes without %s (%s): %s", ocl_cap_name(i),
                           ocl_answer_name(view->report[i].answer), view->report[i].reason);
            if (clt_str_check(&line) == CLT_OK)
                text_wrap(line.text, 0, 12, screen, &lines);
        }
    table_print(&lines); /* print now, since probing the next device may take long */
}

static void look(const ocl_device_desc *listed, bool again, device_view *view)
{
    ocl_open_options options = {.spec = listed->spec, .caps_mask = OCL_CAPS_ALL, .ask_again = again};
    CLT_SCOPED(ocl_device) *device = NULL;
    memset(view, 0, sizeof *view);
    view->desc = *listed;
    view->usable = ocl_device_open(&options, &device) == CLT_OK;
    if (!view->usable) {
        snprintf(view->error, sizeof view->error, "%s", clt_error_text());
        return;
    }
    view->desc = *ocl_device_describe(device);
    for (int i = 0; i < OCL_CAP_COUNT; i++)
        view->report[i] = ocl_device_cap_report(device, i);
}

clt_status cmd_devices(cmd_context *context, int argc, char **argv)
{
    bool json = false, again = false;
    const args_option options[] = {
        ARGS_JSON(json),
        ARGS_FLAG("--again", again, "test the devices again instead of using cached results"), ARGS_END};
    const args_usage usage = ARGS_USAGE("devices", "", 0, 0, options,
                                        "Lists every OpenCL device; capabilities are found by building and "
                                        "running probe kernels and self-tests; the results are cached.");
    args_result r;
    CLT_FREED ocl_device_desc *list = NULL;
    int count = 0, usable = 0;
    CLT_SCOPED(clt_str) text = {0};
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    if (again)
        ocl_listing_again();
    CLT_TRY(ocl_list_devices(&list, &count));
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_array(&w);
    for (int i = 0; i < count; i++) {
        device_view view;
        look(&list[i], again, &view);
        usable += view.usable;
        if (json)
            write_device(&w, &view);
        else
            print_device(&view);
    }
    clt_jw_end_array(&w);
    if (json)
        CLT_TRY(cmd_write_line("-", &text));
    if (usable == 0)
        CLT_FAIL(CLT_EDEVICE, "none of %d devices can be used; run 'cltrain doctor'", count);
    return CLT_OK;
}
