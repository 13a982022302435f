/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain doctor: prints what ocl_doctor finds out about drivers and devices that do not work. */
#include <stdio.h>

#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/terminal.h"

static void on_finding(void *context, ocl_finding_level level, const char *text, const char *advice)
{
    static const char *const names[] = {"ok   ", "note ", "warn ", "ERROR"};
    (void)context;
    terminal_say_item(7, "%s  %s\n", names[level], text);
    if (advice && *advice)
        terminal_say_item(10, "       -> %s\n", advice);
    fflush(stdout); /* in the next check a bad driver may crash the process */
}

clt_status cmd_doctor(cmd_context *context, int argc, char **argv)
{
    const args_option options[] = {ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "doctor", "", 0, 0, options,
        "Looks for the reasons why there is no OpenCL device: ICD files, driver libraries, device nodes.");
    args_result r;
    bool healthy = false;
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(ocl_doctor(on_finding, NULL, &healthy));
    if (!healthy)
        CLT_FAIL(CLT_EDEVICE, "no device can be used; the findings above say what is missing");
    terminal_say("\nhealthy: at least one device works; 'cltrain devices' lists them\n");
    return CLT_OK;
}
