/* SPDX-License-Identifier: Apache-2.0
 *
 * How files of cl/ that enqueue commands report to the recorder and the meter. No other file includes this
 * header. */
#ifndef CL_COMMAND_RECORD_INTERNAL_H
#define CL_COMMAND_RECORD_INTERNAL_H

#include "cl/device/internal.h"
#include "cl/command/record.h"
#include "engine/base/thread.h"

/* The current level; OFF without a recorder. */
ocl_record_level ocl_record_level_of(const ocl_device *device);
/* Records a command; takes ownership of both events. Fills in tag, level and host time. To be called only
 * while the level is not OFF. */
void ocl_record_add(ocl_device *device, const ocl_span *span, cl_event start, cl_event end);

/* code = (call); while the meter is on, adds the CPU time that the thread spent in the call. */
#define OCL_METERED(device, code, call)                                                                      \
    do {                                                                                                     \
        double ocl_metered_ = (device)->meter.on ? clt_thread_cpu() : 0.0;                                   \
        (code) = (call);                                                                                     \
        if ((device)->meter.on) {                                                                            \
            (device)->meter.seconds += clt_thread_cpu() - ocl_metered_;                                      \
            (device)->meter.calls++;                                                                         \
        }                                                                                                    \
    } while (0)

#endif
