/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain doctor: prints what ocl_doctor finds out about drivers and devices that do not work, whether the
 * metadata service of the machine's cloud answers, and where keys for object storage would come from. */
#include <stdio.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/terminal.h"
#include "engine/cloud/notice.h"
#include "engine/storage/s3.h"

static void on_finding(void *context, ocl_finding_level level, const char *text, const char *advice)
{
    static const char *const names[] = {"ok   ", "note ", "warn ", "ERROR"};
    (void)context;
    terminal_say_item(7, "%s  %s\n", names[level], text);
    if (advice && *advice)
        terminal_say_item(10, "       -> %s\n", advice);
    fflush(stdout); /* in the next check a bad driver may crash the process */
}

/* On a cloud machine, checks its metadata service. It is not an error if the service does not answer: the
 * machine can still train. */
static void look_at_cloud(void)
{
    const char *cloud = clt_cloud_of_machine();
    const clt_notice_options options = {.provider = "auto", .file = "", .url = "", .endpoint = ""};
    char text[600];
    if (!cloud || strcmp(cloud, "off") == 0)
        return;
    snprintf(text, sizeof text, "this machine belongs to the cloud %.40s; asking its metadata service",
             cloud);
    on_finding(NULL, OCL_FINDING_NOTE, text, NULL);
    if (clt_notices_try(&options) == CLT_OK) {
        on_finding(NULL, OCL_FINDING_OK,
                   "it answers: trainings will get a notice before the machine is taken away", NULL);
        return;
    }
    snprintf(text, sizeof text, "trainings will not get a notice before the machine is taken away: %s",
             clt_error_text());
    clt_error_clear();
    on_finding(NULL, OCL_FINDING_WARN, text,
               strcmp(cloud, "aws") == 0
                   ? "in a container with its own network, the machine needs http_put_response_hop_limit = "
                     "2, or the container the host's network; see docs/cloud.md"
                   : "see docs/cloud.md for what is asked, and how to name another source of notices");
}

/* Prints the source of keys for object storage, if keys or a profile are set up on this machine; otherwise
 * prints nothing. Never shows a key. */
static void look_at_storage(void)
{
    const clt_s3_options options = {.attempts = 0};
    clt_s3_setup setup;
    char text[1024];
    if (clt_s3_describe(&options, &setup) != CLT_OK) {
        snprintf(text, sizeof text, "object storage cannot be used: %s", clt_error_text());
        clt_error_clear();
        on_finding(NULL, OCL_FINDING_WARN, text,
                   "see docs/storage.md for how keys and the server are set up");
        return;
    }
    if (setup.keys[0]) {
        snprintf(text, sizeof text, "object storage: keys would come from %s; region %s, server %s",
                 setup.keys, setup.region, setup.server);
        on_finding(NULL, OCL_FINDING_OK, text, NULL);
    } else if (setup.profile[0]) {
        snprintf(text, sizeof text,
                 "object storage: the profile '%s' has no keys, and there is no other source; region %s, "
                 "server %s",
                 setup.profile, setup.region, setup.server);
        on_finding(NULL, OCL_FINDING_NOTE, text, NULL);
    }
}

clt_status cmd_doctor(cmd_context *context, int argc, char **argv)
{
    const args_option options[] = {ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "doctor", "", 0, 0, options,
        "Looks for the reasons why there is no OpenCL device: ICD files, driver libraries, device nodes.\n"
        "Also says whether the metadata service of the machine's cloud answers, and where keys for object\n"
        "storage would come from.");
    args_result r;
    bool healthy = false;
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(ocl_doctor(on_finding, NULL, &healthy));
    look_at_cloud();
    look_at_storage();
    if (!healthy)
        CLT_FAIL(CLT_EDEVICE, "no device can be used; the findings above say what is missing");
    terminal_say("\nhealthy: at least one device works; 'cltrain devices' lists them\n");
    return CLT_OK;
}
