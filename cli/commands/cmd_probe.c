/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain probe: the child process in which other commands test what a driver can do, and then build
 * programs. It reads requests from the standard input, one per line, and answers on a private pipe. */
#include "cl/device/listing.h"
#include "cl/probes/asking.h"
#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "engine/host/child.h"

/* Counts devices for cltrain launch. This needs a new process, because after the loss of a device a driver
 * may still list it to a process that has seen it before. */
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
    const char *device = "";
    bool count = false, list = false;
    const args_option options[] = {ARGS_TEXT("--device", "SPEC", device, "number of the device"),
                                   ARGS_FLAG("--list", list, "list the devices, and nothing else"),
                                   ARGS_FLAG("--count", count, "count the devices that SPEC names"),
                                   ARGS_END};
    const args_usage usage =
        ARGS_USAGE("probe", "", 0, 0, options,
                   "Asks a device what it can do, for another cltrain that started this one.");
    args_result r;
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    if (count)
        return count_devices(*device ? device : NULL);
    return list ? ocl_listing_serve() : ocl_asking_serve(device);
}
