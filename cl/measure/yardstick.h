/* SPDX-License-Identifier: Apache-2.0
 *
 * A yardstick for times that are compared across days: the present speed of the device's memory and
 * arithmetic. */
#ifndef CL_MEASURE_YARDSTICK_H
#define CL_MEASURE_YARDSTICK_H

#include "cl/device/device.h"
#include "engine/base/scope.h"

/* The clock for work on a device, in seconds. For a CPU device it is the CPU time of this process, because
 * the driver computes in this process, and other programs on the machine lengthen CPU time much less than
 * wall time. For other devices it is wall time. */
double (*ocl_work_clock(const ocl_device_desc *desc))(void);

typedef struct ocl_yardstick ocl_yardstick;
clt_status ocl_yardstick_create(ocl_device *device, ocl_yardstick **out);
/* Runs a triad over memory, and chains of multiply-adds. *gbs, *gflops: GB and GFLOP per second of
 * ocl_work_clock. Blocks for some milliseconds. */
clt_status ocl_yardstick_run(const ocl_yardstick *yardstick, double *gbs, double *gflops);
void ocl_yardstick_destroy(ocl_yardstick *yardstick); /* NULL is fine */
CLT_SCOPED_POINTER(ocl_yardstick, ocl_yardstick_destroy)

#endif
