/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain probe: the child process of other commands that tests what a driver can do. It answers on a
 * private pipe. */
#include <stdlib.h>

#include "cl/device/listing.h"
#include "cl/probes/asking.h"
#include "cl/program/builders.h"
#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "engine/host/child.h"

/* Counts devices for cltrain launch. A child process does it, because a driver that has lost a device may
 * still list it to a process that has seen it before. */
static clt_status count_devices(const char *spec)
{
    int count;
    bool cpu;
    CLT_TRY(clt_child_begin());
    CLT_TRY(ocl_count_devices(spec, &count, &cpu));
    return clt_child_say("devices %d %s", count, cpu ? "cpu" : "gpu");
}

clt_status cmd_probe(cmd_context *context, int argc, char **argv)
{
    const char *device = "", *mask = "", *have = "", *style = "asked", *share = "";
    bool count = false, list = false, no_tests = false, stay = false, build = false, one_by_one = false;
    const args_option options[] = {
        ARGS_TEXT("--device", "SPEC", device, "number of the device"),
        ARGS_TEXT("--mask", "BITS", mask, "capabilities to ask for, hexadecimal"),
        ARGS_TEXT("--style", "NAME", style, "asked, lanes or groups"),
        ARGS_TEXT("--have", "LIST", have, "answers that are known already"),
        ARGS_TEXT("--share", "NUMBER", share, "only questions and self-tests of this share"),
        ARGS_FLAG("--no-tests", no_tests, "probe kernels only"),
        ARGS_FLAG("--one-by-one", one_by_one, "build one program after the other"),
        ARGS_FLAG("--stay", stay, "after the answers, build the programs that standard input names"),
        ARGS_FLAG("--list", list, "list the devices, and nothing else"),
        ARGS_FLAG("--count", count, "count the devices that SPEC names"),
        ARGS_FLAG("--build", build, "build the programs that standard input names"),
        ARGS_END};
    const args_usage usage =
        ARGS_USAGE("probe", "", 0, 0, options,
                   "Asks a device what it can do, for another cltrain that started this one.");
    args_result r;
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    if (count)
        return count_devices(*device ? device : NULL);
    if (build)
        return ocl_builder_serve(device);
    return list ? ocl_listing_serve()
                : ocl_asking_serve(device, mask, style, have, !no_tests,
                                   *share ? atoi(share) : OCL_ALL_SHARES, one_by_one, stay);
}
